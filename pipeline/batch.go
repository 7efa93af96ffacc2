package pipeline

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"enricher/lookup"
)

// maxBatch is how many facts one lookup batch takes at most. The larger it is the more keys it has in common (of zipf 1.07 over 1 M keys, 0.63 of 512
// facts are read from the store and 0.52 of 2,048), and the longer the first facts of a poll wait for the others.
const maxBatch = 2048

// outcome is how a fact ended, the values of the label of enricher_facts_total.
type outcome uint8

const (
	written outcome = iota
	dropped
	skipped
	deadLettered
	passed
	outcomes
)

func (o outcome) String() string {
	return [outcomes]string{"written", "dropped", "skipped", "dead_lettered", "passed"}[o]
}

// batch is a run of facts of one Kafka partition on its way: read, looked up, written, acknowledged, committed.
//
// It belongs to one goroutine at a time: the poller makes it, its lane's worker fills it, the writer sends it. Only pending is shared with the
// client's acknowledgements.
type batch struct {
	lane  *lane
	gen   uint64 // the lane's generation when it was read: an older one is dropped
	span  run    // the offsets that are finished with this batch
	facts int

	recs  []*kgo.Record // as polled; a record is reused for the first output record of its fact
	out   []*kgo.Record // output records and dead letters, in the order of the facts
	owner []int32       // out[i] comes from the fact at offsets[owner[i]]

	offsets   []int64 // per fact
	stamps    []int64 // per fact: its timestamp in ms, for the end-to-end latency
	counts    [outcomes]int
	letters   []failedFact
	fatal     error // on_error: fail. Everything before this batch is still committed
	lookups   []lookup.StepStats
	lookedUp  time.Duration
	stepTimes []time.Duration // per lookup

	before <-chan struct{} // closed once the batch before it in the lane is handed over; nil for none
	handed chan struct{}   // closed once this one is

	pending  atomic.Int32 // output records that are not acknowledged
	refused  atomic.Bool  // one of them was not taken
	released atomic.Bool  // it counts no longer as in flight
	sent     bool         // the writer began to write it
}

// failedFact is a dead letter of a batch, for the metrics and the status.
type failedFact struct {
	from origin
	failure
}

// split cuts the facts from n on off; nil when there are none.
func (b *batch) split(n int) *batch {
	if n == len(b.recs) {
		return nil
	}
	middle := b.recs[n].Offset
	rest := &batch{lane: b.lane, gen: b.gen, recs: b.recs[n:], facts: len(b.recs) - n, span: run{middle, b.span.To}}
	b.span.To = middle
	b.recs, b.facts = b.recs[:n:n], n
	return rest
}

// build turns outcomes into output records.
func (b *batch) build(outs []lookup.Outcome, o *Options, v verdicts) {
	n := len(b.recs)
	b.out = make([]*kgo.Record, 0, n)
	b.owner = make([]int32, 0, n)
	b.offsets = make([]int64, n)
	b.stamps = make([]int64, n)
	for i, rec := range b.recs {
		b.offsets[i] = rec.Offset
		b.stamps[i] = rec.Timestamp.UnixMilli()
		refused := v.of(b.origin(i), rec, o)
		f, failed := failed(&outs[i], rec, o)
		switch {
		case failed && refused != nil && !refused.output: // it never had an output record: what the broker refused is its dead letter
			b.fail(i, f, o, refused.form+1, v)
		case failed:
			b.fail(i, f, o, letterWhole, v)
		case outs[i].Kind == lookup.Dropped:
			b.counts[dropped]++
		case refused != nil:
			b.fail(i, failure{stage: StageOutput, class: ClassRejected, message: refused.message}, o, refused.form, v)
		case outs[i].Kind == lookup.Passed:
			b.counts[passed]++
			b.add(i, o, nil, true)
		default:
			b.write(i, o, outs[i].Records)
		}
	}
	b.pending.Store(int32(len(b.out)))
	clear(b.recs) // they share an array with the rest of the poll, which would keep all of it alive
	b.recs = nil
}

// origin names fact i. Records are reused, so the lane and the kept offsets are asked.
func (b *batch) origin(i int) origin {
	return origin{b.lane.topic, b.lane.partition, b.offsets[i]}
}

// failed tells why a fact has no result: what the lookup says, or one of its output records that is too large, for it is all or none.
func failed(out *lookup.Outcome, rec *kgo.Record, o *Options) (f failure, failed bool) {
	if out.Kind == lookup.Failed {
		stage := StageLookup
		if out.Class == lookup.ClassDecode {
			stage = StageInput
		}
		return failure{stage, out.Class, out.Message, out.Dimension}, true
	}
	rest := recordSize(rec) - len(rec.Value)
	for _, v := range out.Records {
		if size := rest + len(v); size > o.MaxRecordSize {
			message := fmt.Sprintf("the enriched record has %d bytes, output.max_record_size allows %d", size, o.MaxRecordSize)
			return failure{stage: StageOutput, class: ClassTooLarge, message: message}, true
		}
	}
	return failure{}, false
}

// write adds the output records of fact i.
func (b *batch) write(i int, o *Options, values [][]byte) {
	b.counts[written]++
	for j, v := range values {
		b.add(i, o, v, j == 0)
	}
}

// add appends one output record of fact i. The first one reuses the polled record: key, headers and timestamp stay in place.
func (b *batch) add(i int, o *Options, value []byte, reuse bool) {
	rec := b.recs[i]
	out := rec
	if !reuse {
		out = new(kgo.Record)
	}
	*out = kgo.Record{Topic: o.OutputTopic, Partition: b.lane.partition, Key: rec.Key, Value: value, Headers: rec.Headers, Timestamp: rec.Timestamp}
	b.out = append(b.out, out)
	b.owner = append(b.owner, int32(i))
}

// fail deals with a fact that failed, as on_error says.
func (b *batch) fail(i int, f failure, o *Options, form letterForm, v verdicts) {
	from := b.origin(i)
	switch {
	case o.OnError == OnErrorSkip:
		b.counts[skipped]++
	case o.OnError == OnErrorFail || form >= letterRefused:
		if b.fatal == nil {
			what := "input.on_error is fail"
			if form >= letterRefused {
				what = "topic " + o.DeadLetterTopic + " refuses even its dead letter"
			}
			b.fatal = fmt.Errorf("fact of topic %s, partition %d, offset %d: %s: %s (%s; mend or skip the fact, then start again)",
				from.topic, from.partition, from.offset, f.class, f.message, what)
		}
	default:
		if _, err := v.rules.refuses(o.DeadLetterTopic, false, b.recs[i].Timestamp, v.now); err != nil { // its timestamp, for a letter without a key is not saved by another form
			form = max(form, letterStamped)
			if form == letterTruncated {
				form = letterBare
			}
		}
		b.counts[deadLettered]++
		b.letters = append(b.letters, failedFact{from, f})
		b.out = append(b.out, deadLetter(b.recs[i], o.DeadLetterTopic, o.InstanceID, from, f, form, o.MaxRecordSize))
		b.owner = append(b.owner, int32(i))
	}
}
