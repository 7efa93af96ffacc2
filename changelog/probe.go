package changelog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"enricher/dimstore"
)

// The client shows positions only through records. Behind batches without one (emptied by compaction, aborted with the marker compacted
// away) it moves on and says nothing, and silence also is what a broker that does not answer looks like. A probe asks: a read committed
// Fetch of our own, outside the client's session, for one bucket at its position, to the leader of the epoch that metadata names.

const (
	probeBytes = 256 << 10
	probeSteps = 64 // of one probe, as long as each moves
)

// found is the answer to a probe of one bucket.
type found struct {
	bucket     int
	from, to   int64 // nothing that a read committed reader gets lies in [from, to)
	outOfRange bool  // from lies outside the log
}

// probe moves on from a position as far as there is nothing to read.
func (f *feed) probe(ctx context.Context, meta topicMeta, bucket int, id dimstore.BucketID, from int64) (found, error) {
	at := found{bucket: bucket, from: from, to: from}
	for range probeSteps {
		part, err := fetchOnce(ctx, f.cl, meta, id, at.to)
		if err != nil {
			return at, err
		}
		if part.ErrorCode == kerr.OffsetOutOfRange.Code {
			at.outOfRange = true
			return at, nil
		}
		next, last, err := emptyUpTo(part, at.to)
		if err != nil {
			return at, fmt.Errorf("read bucket %d of topic %q at %d: %w", id.Partition, id.Topic, at.to, err)
		}
		moved := next > at.to
		at.to = max(at.to, next)
		if last || !moved {
			return at, nil
		}
	}
	return at, nil
}

// fetchOnce fetches one bucket at an offset and does not wait for records. Only one bucket per request: among several, an empty answer
// may also mean that the others took all the room.
func fetchOnce(ctx context.Context, cl *kgo.Client, meta topicMeta, id dimstore.BucketID, at int64) (*kmsg.FetchResponseTopicPartition, error) {
	p := kmsg.NewFetchRequestTopicPartition()
	if int(id.Partition) >= len(meta.leaders) {
		return nil, fmt.Errorf("fetch bucket %d of topic %q: its leader is not known", id.Partition, id.Topic)
	}
	leads := meta.leaders[id.Partition]
	p.Partition = id.Partition
	p.CurrentLeaderEpoch = leads.epoch
	p.FetchOffset = at
	p.PartitionMaxBytes = probeBytes
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = id.Topic, meta.id
	t.Partitions = append(t.Partitions, p)
	req := kmsg.NewPtrFetchRequest() // no session, no rack: the leader answers itself
	req.IsolationLevel = 1
	req.MaxBytes = probeBytes
	req.Topics = append(req.Topics, t)

	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	kresp, err := cl.Broker(int(leads.node)).Request(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("fetch bucket %d of topic %q at %d: %w", id.Partition, id.Topic, at, err)
	}
	resp := kresp.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, fmt.Errorf("fetch bucket %d of topic %q at %d: %w", id.Partition, id.Topic, at, err)
	}
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			part := &resp.Topics[i].Partitions[j]
			if part.Partition != id.Partition {
				continue
			}
			if err := kerr.ErrorForCode(part.ErrorCode); err != nil && !errors.Is(err, kerr.OffsetOutOfRange) {
				return nil, fmt.Errorf("fetch bucket %d of topic %q at %d: %w", id.Partition, id.Topic, at, err)
			}
			return part, nil
		}
	}
	// A broker that throttles answers without partitions.
	return nil, fmt.Errorf("fetch bucket %d of topic %q at %d: the answer lacks the bucket", id.Partition, id.Topic, at)
}

// emptyUpTo says up to which offset a fetch at an offset shows nothing for a read committed reader, and whether looking further is in vain:
// a record lies there, or the end.
func emptyUpTo(part *kmsg.FetchResponseTopicPartition, at int64) (next int64, last bool, err error) {
	if len(part.RecordBatches) == 0 {
		// No bytes at all: nothing is left below the last stable offset (the log's tail was removed), or that is where we are.
		return max(at, part.LastStableOffset), true, nil
	}
	fp, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		Offset: at, IsolationLevel: kgo.ReadCommitted(), Partition: part.Partition,
	}, part, kgo.DefaultDecompressor(), nil)
	if len(fp.Records) > 0 {
		return max(at, fp.Records[0].Offset), true, nil
	}
	if fp.Err != nil {
		return at, true, fp.Err
	}
	return next, next >= part.LastStableOffset, nil
}

// probing is when one bucket that does not move is probed again. The waits grow: a bucket may stand because others are read first.
type probing struct {
	at    int64 // position when it was last looked at
	due   time.Time
	delay time.Duration
}

const (
	probeFirst = 100 * time.Millisecond
	probeMost  = 5 * time.Second
)

// ready reports whether a bucket that is at position now, short of its end, is due for a probe.
func (p *probing) ready(position int64, now time.Time) bool {
	if position != p.at || p.delay == 0 {
		*p = probing{at: position, due: now.Add(probeFirst), delay: probeFirst}
		return false
	}
	if now.Before(p.due) {
		return false
	}
	p.delay = min(2*p.delay, probeMost)
	p.due = now.Add(p.delay)
	return true
}
