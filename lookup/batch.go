package lookup

// Batch is the working memory of one goroutine.
type Batch struct{}

// NewBatch makes a batch.
func (p *Plan) NewBatch() *Batch { panic("BUG: not built yet") }

// Run looks up all facts.
func (b *Batch) Run(facts []Fact) ([]Outcome, error) { panic("BUG: not built yet") }

// Stats are the counters of the last Run, per step.
func (b *Batch) Stats() []StepStats { panic("BUG: not built yet") }
