package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// byTopic divides records.
func byTopic(recs []*kgo.Record) (good, letters []*kgo.Record) {
	for _, r := range recs {
		if r.Topic == outTopic {
			good = append(good, r)
		} else {
			letters = append(letters, r)
		}
	}
	return good, letters
}

// produceHolds matches produce requests that hold a mark; compression has to be off.
func produceHolds(mark string) func(kmsg.Request) bool {
	return func(req kmsg.Request) bool {
		for _, topic := range req.(*kmsg.ProduceRequest).Topics {
			for _, p := range topic.Partitions {
				if bytes.Contains(p.Records, []byte(mark)) {
					return true
				}
			}
		}
		return false
	}
}

// A dead-letter topic that takes less than the output topic turns away no fact that the output topic takes.
func TestEachTopicHasItsOwnSizeLimit(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		admin := kadm.NewClient(w.client)
		small := "2000"
		_, err := admin.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: &small}}, dlTopic)
		require.NoError(t, err)
		in := w.start()
		w.write(&kgo.Record{Topic: inTopic, Value: fmt.Appendf(nil, `{"cust":1,"pad":%q}`, strings.Repeat("x", 100_000))})
		got := w.read(1)[0]
		assert.Equal(t, outTopic, got.Topic, "%s: %s", header(got, HeaderClass), header(got, HeaderMessage))
		require.NoError(t, in.end())
	})
}

// A fact that fails by itself keeps its stage and class when the dead-letter topic takes its letter only without the value.
func TestALetterThatIsRefusedKeepsItsReason(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: dlTopic, Err: kerr.MessageTooLarge, Count: -1, When: produceHolds("much too long")})
		in := w.start()
		w.write(
			&kgo.Record{Topic: inTopic, Value: []byte(`{"much too long`), Timestamp: time.UnixMilli(5)},
			&kgo.Record{Topic: inTopic, Value: []byte(`{"id":1,"cust":1}`), Timestamp: time.UnixMilli(1001)},
		)
		good, letters := byTopic(w.read(2))
		require.Len(t, good, 1)
		require.Len(t, letters, 1)
		l := letters[0]
		assert.Equal(t, []string{StageInput, "decode"}, []string{header(l, HeaderStage), header(l, HeaderClass)})
		assert.Contains(t, header(l, HeaderMessage), "invalid JSON")
		assert.Nil(t, l.Value)
		assert.Equal(t, "true", header(l, HeaderTruncated))
		assert.Equal(t, int64(5), l.Timestamp.UnixMilli())
		require.NoError(t, in.end())
	})
}

// A timestamp that both topics refuse costs the letter its timestamp, which the header has, not its value.
func TestALetterWithARefusedTimestampKeepsItsValue(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		const mark = `{"id":1,"cust":1`
		refused := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: outTopic, Err: kerr.InvalidTimestamp, Count: -1, When: produceHolds(mark)})
		letter := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: dlTopic, Err: kerr.InvalidTimestamp, Count: 1, When: produceHolds(mark)})
		in := w.start()
		w.write(&kgo.Record{Topic: inTopic, Value: []byte(mark + `}`), Timestamp: time.UnixMilli(5)})
		l := w.read(1)[0]
		assert.Positive(t, refused.Hits())
		assert.Equal(t, 1, letter.Hits())
		assert.Equal(t, dlTopic, l.Topic)
		assert.Equal(t, ClassRejected, header(l, HeaderClass))
		assert.Equal(t, mark+`}`, string(l.Value))
		assert.Equal(t, "5", header(l, HeaderTimestamp))
		assert.Empty(t, header(l, HeaderTruncated))
		assert.WithinDuration(t, time.Now(), l.Timestamp, time.Minute)
		require.NoError(t, in.end())
	})
}

// A long commit interval is no failure to write.
func TestReadyThroughoutALongCommitInterval(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		in := w.start(func(o *Options) { o.CommitInterval, o.TransactionTimeout = 20*time.Second, time.Minute })
		time.Sleep(time.Minute)
		w.produce(8)
		time.Sleep(15 * time.Second)
		assert.Empty(t, in.Unready())
		w.expect()
		require.NoError(t, in.end())
	})
}

// The status has lists, not nulls, for whoever reads the JSON.
func TestEmptyListsOfTheStatus(t *testing.T) {
	inWorld(t, func(w *world) {
		in := w.start()
		w.produce(1)
		w.enrichedNext(1)
		s := in.Status()
		assert.NotNil(w.t, s.Errors)
		assert.NotNil(w.t, s.DeadLetters)
		require.NoError(w.t, in.end())
	})
}

// A long search for facts that are refused is told, in the log and to /readyz.
func TestALongSearchForRefusedFactsIsTold(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: outTopic, Err: kerr.InvalidRecord, Count: -1})
		in := w.start()
		w.produce(100)
		good, letters := byTopic(w.read(100))
		assert.Empty(t, good)
		for _, l := range letters {
			assert.Equal(t, ClassRejected, header(l, HeaderClass))
		}
		errs := in.Status().Errors
		require.NotEmpty(t, errs)
		assert.Contains(t, errs[0].Message, "topic orders_enriched refused the record: INVALID_RECORD")
		assert.Contains(t, errs[0].Message, "looking for all such facts")
		require.NoError(t, in.end())
	})
}

// Without a place in the group the lag is not known, which is not the same as 0.
func TestNoLagWithoutASession(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		reg := prometheus.NewRegistry()
		lag := func() int {
			families, err := reg.Gather()
			require.NoError(t, err)
			for _, f := range families {
				if f.GetName() == "enricher_input_lag_records" {
					return len(f.GetMetric())
				}
			}
			return 0
		}
		line := &cable{w: w}
		in := w.start(via(line), func(o *Options) { o.Metrics = NewMetrics(reg) })
		w.produce(8)
		w.enrichedNext(8)
		assert.Equal(t, 1, lag())
		line.set(true)
		w.produce(8)
		time.Sleep(2 * time.Minute)
		assert.Equal(t, 0, lag())
		line.set(false)
		w.enrichedNext(8)
		assert.Equal(t, 1, lag())
		require.NoError(t, in.end())
	})
}

// partition: input needs as many Kafka partitions in the output topic, also when the input topic gets more of them later.
func TestMorePartitionsThanTheOutputEndTheService(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		in := w.start(func(o *Options) { o.Partition = PartitionInput })
		defer in.stop()
		w.produce(8)
		w.enrichedNext(8)
		_, err := kadm.NewClient(w.client).CreatePartitions(t.Context(), 2, inTopic)
		require.NoError(t, err)
		assert.EqualError(t, <-in.done, "output.partition is input, but topic orders has 6 Kafka partitions and output topic orders_enriched only 4: "+
			"add partitions to orders_enriched or set output.partition: key")
	})
}

// Instances that join a new group together agree where it begins, whoever commits first: the start is committed for all Kafka partitions before
// anybody is a member.
func TestStartOfANewGroupIsClaimed(t *testing.T) {
	inWorld(t, func(w *world) {
		w.produce(400)
		admin := kadm.NewClient(w.client)
		committed := func() (at []int64) {
			offsets, err := admin.FetchOffsets(w.t.Context(), "g")
			require.NoError(w.t, err)
			for p := range int32(4) {
				o, ok := offsets.Lookup(inTopic, p)
				require.True(w.t, ok)
				at = append(at, o.At)
			}
			return at
		}
		claim := func(s Start) {
			p, err := New(w.options(func(o *Options) { o.Start = s }))
			require.NoError(w.t, err)
			require.NoError(w.t, p.claimStart(w.t.Context(), admin))
		}
		claim(Start{At: time.UnixMilli(1000 + 200)})
		assert.Equal(w.t, []int64{50, 50, 50, 50}, committed())
		claim(Start{Latest: true})
		assert.Equal(w.t, []int64{50, 50, 50, 50}, committed(), "the group has a start")

		unstable := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Group: "g", Err: kerr.UnstableOffsetCommit, Count: -1})
		claim(Start{Latest: true}) // somebody commits: there is nothing to claim, and nothing to wait for
		unstable.Remove()

		in := w.start(func(o *Options) { o.Start = Start{Latest: true} })
		w.enrichedNext(200)
		claim(Start{Latest: true}) // beside a member
		w.quiet()
		require.NoError(w.t, in.end())
	})
}

// Facts wait for what Before brings up to date, and go on when it returns; its error ends the service.
func TestBefore(t *testing.T) {
	for _, delivery := range []string{ExactlyOnce, AtLeastOnce} {
		t.Run(delivery, func(t *testing.T) { testBefore(t, delivery) })
	}
}

func testBefore(t *testing.T, delivery string) {
	t.Helper()
	inWorld(t, func(w *world) {
		open := make(chan struct{})
		in := w.start(func(o *Options) {
			o.Delivery = delivery
			o.Before = func(ctx context.Context) error {
				select {
				case <-open:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		})
		w.produce(100)
		w.quiet()
		assert.Equal(w.t, int64(100), in.Status().InFlight)
		assert.Empty(w.t, in.Unready(), "waiting is no failure of writes")
		close(open)
		w.enrichedNext(100)
		require.NoError(w.t, in.end())

		stale := errors.New("dimension customer is stale")
		in = w.start(func(o *Options) { o.Delivery, o.Before = delivery, func(context.Context) error { return stale } })
		w.produce(1)
		require.ErrorIs(w.t, <-in.done, stale)
		in.stop()
		w.quiet()

		// One that never lets go is given up at the end of the grace.
		in = w.start(func(o *Options) {
			o.Grace, o.Before = time.Second, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		})
		time.Sleep(5 * time.Second)
		start := time.Now()
		require.NoError(w.t, in.end())
		assert.Less(w.t, time.Since(start), time.Second+2*closeTimeout)
	})
}

// A group that does not tell where the assigned Kafka partitions begin makes the instance unready, and is asked again.
func TestOffsetsOfAnOpenTransaction(t *testing.T) {
	inWorld(t, func(w *world) {
		unstable := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Group: "g", Err: kerr.UnstableOffsetCommit, Count: -1})
		w.produce(100)
		in := w.start()
		time.Sleep(5 * time.Second)
		assert.Empty(w.t, in.Unready(), "a moment is nothing")
		ends := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, TxnID: "g-a", TopLevel: true, Observe: true, Count: -1})
		time.Sleep(40 * time.Second)
		require.Len(w.t, in.Unready(), 1)
		assert.Equal(w.t, "offsets_unknown", in.Unready()[0].Reason)
		assert.Equal(w.t, 1, ends.Hits(), "one empty transaction was aborted, to release them")
		written, err := kadm.NewClient(w.client).ListEndOffsets(w.t.Context(), outTopic, dlTopic)
		require.NoError(w.t, err)
		written.Each(func(o kadm.ListedOffset) {
			assert.EqualValues(w.t, 1, o.Offset, "its end is in %s/%d too, where records of a transaction without one may be", o.Topic, o.Partition)
		})
		unstable.Remove()
		w.expect()
		assert.Empty(w.t, in.Unready())
		require.NoError(w.t, in.end())
	})
}
