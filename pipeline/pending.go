package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// errPending ends a session whose group tells no offsets after releasePending.
var errPending = errors.New("the committed offsets belonged to a transaction that had lost its end, which was written anew")

// releasePending ends what keeps the group's offsets from being told. A coordinator that comes up while it does not know the leaders yet takes
// partitions for deleted and leaves the markers of an aborted transaction out (seen with Kafka 4.4.0, broker and controller in one, killed or
// stopped in the middle of a commit). Where the partition of the group's offsets is one of them, they stay part of a transaction that nobody will
// ever end: UNSTABLE_OFFSET_COMMIT for ever. The next marker of the same producer there releases them, so an empty transaction that concerns
// the group is begun and aborted under this instance's transactional id. It concerns all Kafka partitions of the topics that are written as well:
// the records of the lost transaction may have no end there either, the facts they came from are read again, and the next commit of this
// producer would show both. The id is taken over for that, so the session must be built anew.
func (p *Pipeline) releasePending(ctx context.Context) error {
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(int16(kmsg.EndTxn), 4)             // later ones are for transactions of version 2 only
	versions.SetMaxKeyVersion(int16(kmsg.AddPartitionsToTxn), 3) // later ones are for brokers only
	cl, err := kgo.NewClient(append(append([]kgo.Opt(nil), p.o.Client...), kgo.MaxVersions(versions))...)
	if err != nil {
		return fmt.Errorf("make Kafka client: %w", err)
	}
	defer cl.Close()
	id := p.transactionalID()
	begin := kmsg.NewPtrInitProducerIDRequest()
	begin.TransactionalID, begin.TransactionTimeoutMillis = &id, int32(p.o.TransactionTimeout.Milliseconds())
	var producer *kmsg.InitProducerIDResponse
	for {
		if producer, err = begin.RequestWith(ctx, cl); err == nil {
			err = kerr.ErrorForCode(producer.ErrorCode)
		}
		if !errors.Is(err, kerr.ConcurrentTransactions) || ctx.Err() != nil {
			break
		}
		pause(ctx, 100*time.Millisecond)
	}
	if err != nil {
		return fmt.Errorf("take over transactional id %s: %w", id, err)
	}
	add := kmsg.NewPtrAddOffsetsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = id, producer.ProducerID, producer.ProducerEpoch, p.o.Group
	added, err := add.RequestWith(ctx, cl)
	if err == nil {
		err = kerr.ErrorForCode(added.ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("begin a transaction for the group's offsets: %w", err)
	}
	if err := p.addWritten(ctx, cl, id, producer); err != nil {
		return fmt.Errorf("begin a transaction for the topics that are written: %w", err)
	}
	end := kmsg.NewPtrEndTxnRequest()
	end.TransactionalID, end.ProducerID, end.ProducerEpoch = id, producer.ProducerID, producer.ProducerEpoch
	ended, err := end.RequestWith(ctx, cl)
	if err == nil {
		err = kerr.ErrorForCode(ended.ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("abort a transaction for the group's offsets: %w", err)
	}
	return nil
}

// addWritten adds all Kafka partitions of the output and the dead letters to a transaction.
func (p *Pipeline) addWritten(ctx context.Context, cl *kgo.Client, id string, producer *kmsg.InitProducerIDResponse) error {
	add := kmsg.NewPtrAddPartitionsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch = id, producer.ProducerID, producer.ProducerEpoch
	topics, err := kadm.NewClient(cl).ListTopics(ctx, p.written()...)
	if err == nil {
		err = topics.Error()
	}
	if err != nil {
		return err
	}
	for _, t := range topics.Sorted() {
		topic := kmsg.NewAddPartitionsToTxnRequestTopic()
		topic.Topic, topic.Partitions = t.Topic, t.Partitions.Numbers()
		add.Topics = append(add.Topics, topic)
	}
	added, err := add.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	for _, t := range added.Topics {
		for _, partition := range t.Partitions {
			if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
				return fmt.Errorf("add %s/%d: %w", t.Topic, partition.Partition, err)
			}
		}
	}
	return nil
}

// watchPending releases the group's offsets when they are not told, and lets the session begin anew. It tells whether it did.
func (p *Pipeline) watchPending(ctx context.Context) bool {
	s := p.session.Load()
	if s == nil || s.txn == nil || s.unplaced() == 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := p.releasePending(ctx); err != nil {
		p.remember(err)
		return false
	}
	s.cancel(errPending)
	return true
}
