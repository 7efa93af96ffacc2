package changelog

import (
	"enricher/dimstore"
	"enricher/record"
)

// hiddenPartitions are partitions with a topic of their own that is not yet read to the end seen at its discovery. It does not change.
type hiddenPartitions struct{ names map[string]bool }

func (h *hiddenPartitions) has(partition []byte) bool {
	return len(h.names) > 0 && h.names[string(partition)]
}

// rehide computes them. For the holder of the state. While a new generation takes over, views may be of either, so what one of them hides is
// hidden.
func (d *Dimension) rehide() {
	names := map[string]bool{}
	for _, f := range d.state.feeds() {
		if f == d.state.next && !f.closing {
			continue
		}
		if !f.fresh {
			continue
		}
		there := map[string]bool{}
		for _, t := range f.topics {
			if t.origin.named && !t.fresh {
				there[string(t.origin.partition)] = true
			}
		}
		for _, t := range f.topics {
			if p := string(t.origin.partition); t.origin.named && t.fresh && !there[p] {
				names[p] = true
			}
		}
	}
	if len(names) == 0 && len(d.hidden.Load().names) == 0 {
		return
	}
	d.hidden.Store(&hiddenPartitions{names})
}

// View is a view of the store with what a dimension knows beyond it: a partition with a topic of its own exists once that was read to the end
// seen at its discovery; partitions leave when they are older than the retention, and those later than the next unit never are the latest.
// It belongs to one goroutine.
type View struct {
	dimstore.View

	d      *Dimension
	before *hiddenPartitions
	after  *hiddenPartitions
	tuple  []byte
}

// View opens a view. open opens one of the store; it is called once.
func (d *Dimension) View(open func() dimstore.View) *View {
	// What is hidden is hidden before its first row is stored, and shown after its last one. So a view that was opened between the two looks
	// hides what either names.
	v := &View{d: d, before: d.hidden.Load()}
	v.View = open()
	v.after = d.hidden.Load()
	return v
}

func (v *View) hides(partition []byte) bool {
	return v.before.has(partition) || v.after.has(partition) || v.Expired(partition)
}

// plain reports whether nothing can be hidden.
func (v *View) plain() bool {
	return v.d.retention == nil && len(v.before.names) == 0 && len(v.after.names) == 0
}

// Get returns the row of a full key, as dimstore.View does.
func (v *View) Get(partition, key []byte) (record.Row, bool, error) {
	if v.hides(partition) {
		return nil, false, nil
	}
	return v.View.Get(partition, key)
}

// Scan yields rows of a partition, as dimstore.View does.
func (v *View) Scan(partition, prefix []byte, yield func(row record.Row) bool) error {
	if v.hides(partition) {
		return nil
	}
	return v.View.Scan(partition, prefix, yield)
}

// ScanIndex yields rows by an index, as dimstore.View does.
func (v *View) ScanIndex(index int, key []byte, yield func(row record.Row) bool) error {
	if v.plain() {
		return v.View.ScanIndex(index, key, yield)
	}
	return v.View.ScanIndex(index, key, func(row record.Row) bool {
		return v.hides(v.partition(row)) || yield(row)
	})
}

// partition is the one that a row is in.
func (v *View) partition(row record.Row) []byte {
	schema := v.d.o.Schema
	v.tuple = v.tuple[:0]
	for _, i := range schema.PartitionBy {
		v.tuple, _ = record.AppendKey(v.tuple, schema.Columns[i].Type, row.Column(i)) // it did when the row was stored
	}
	return v.tuple
}

// HasPartition reports whether a partition exists.
func (v *View) HasPartition(partition []byte) bool {
	return v.View.HasPartition(partition) && !v.hides(partition)
}

// Latest returns the greatest partitions that exist and are not ahead of time, greatest first, at most n.
func (v *View) Latest(n int) [][]byte {
	if v.plain() {
		return v.View.Latest(n)
	}
	for ask := n; ; ask *= 2 {
		all := v.View.Latest(ask)
		var latest [][]byte
		for _, p := range all {
			if len(latest) < n && !v.hides(p) && (v.d.retention == nil || !v.d.retention.Ahead(p)) {
				latest = append(latest, p)
			}
		}
		if len(latest) >= n || len(all) < ask {
			return latest
		}
	}
}

// Expired reports whether a partition is older than the retention; what does not parse is not.
func (v *View) Expired(partition []byte) bool {
	return v.d.retention != nil && v.d.retention.Expired(partition)
}
