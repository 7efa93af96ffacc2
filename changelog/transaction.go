package changelog

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// openAfter is how long an end stands still below the high watermark before anyone is asked who holds it.
const openAfter = 10 * time.Second

// OpenTransaction is a transaction that holds the end of a bucket back.
type OpenTransaction struct {
	Seconds float64 `json:"seconds"` // how long the end has stood still below the high watermark
	// ProducerID and ProducerEpoch of who holds it; -1 when that can't be found out. `kafka-transactions.sh abort` takes them.
	ProducerID    int64 `json:"producer_id"`
	ProducerEpoch int16 `json:"producer_epoch"`
	StartOffset   int64 `json:"start_offset"` // of the transaction
}

// describeHolders finds out who holds the transactions open that ends stand before. It is for people: errors end nothing.
func (w *watcher) describeHolders(ctx context.Context) {
	s := &w.f.d.state
	now := time.Now()
	set := kadm.TopicsSet{}
	s.mu.Lock()
	for i := range w.f.track.buckets {
		if b := &w.f.track.buckets[i]; b.openTransaction(now) >= openAfter && !b.holder.known {
			set.Add(b.id.Topic, b.id.Partition)
		}
	}
	s.mu.Unlock()
	if len(set) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	described, err := kadm.NewClient(w.f.cl).DescribeProducers(ctx, set)
	if err != nil {
		w.f.log.DebugContext(ctx, "producers with open transactions can't be told", "error", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range w.f.track.buckets {
		b := &w.f.track.buckets[i]
		if b.holder.known || b.standing.IsZero() {
			continue
		}
		for _, p := range described[b.id.Topic].Partitions[b.id.Partition].ActiveProducers {
			if p.CurrentTxnStartOffset == b.end { // the last stable offset is where the oldest open transaction begins
				b.holder = holder{producerID: p.ProducerID, epoch: p.ProducerEpoch, known: true}
				w.f.log.WarnContext(ctx, "a producer holds a transaction open, and with it the changes behind its beginning",
					"topic", b.id.Topic, "bucket", b.id.Partition, "producer_id", p.ProducerID, "producer_epoch", p.ProducerEpoch,
					"start_offset", b.end, "seconds", int64(b.openTransaction(now).Seconds()))
			}
		}
	}
}
