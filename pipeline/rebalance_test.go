//go:build synctests

package pipeline

// The tests of this file let transactions end while the group rebalances. Inside the client one then waits for a mutex that the other holds, which
// testing/synctest does not take for durably blocked: fake time would stand still. With the tag synctests the client's mutexes are made of channels.
// Run them with: go test -tags synctests ./pipeline

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestKilledInTheMiddleOfATransaction(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		for range 5 {
			w.produce(1000)
			line := &cable{w: w}
			// The commit is held back, so the kill finds a transaction that is written and open.
			held := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn, kmsg.TxnOffsetCommit}, Err: kerr.ConcurrentTransactions, TopLevel: true, Count: -1})
			killed := w.start(via(line), func(o *Options) { o.Grace = time.Second })
			time.Sleep(2 * time.Second)
			line.set(true)
			held.Remove()
			killed.stop()

			start := time.Now()
			next := w.start()
			w.enrichedNext(1000)
			assert.Less(t, time.Since(start), 5*time.Second, "the successor waits for no timeout")
			require.NoError(t, next.end())
			require.NoError(t, <-killed.done)
		}
		w.quiet()
	})
}

func TestPausedLongerThanTheTransactionTimeout(t *testing.T) {
	for name, away := range map[string]time.Duration{"30 s": 30 * time.Second, "longer than the session timeout": 70 * time.Second} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				t := w.t
				line := &cable{w: w}
				in := w.start(via(line))
				w.produce(500)
				w.enrichedNext(500)
				go func() {
					for range 20 {
						w.produce(100)
						time.Sleep(100 * time.Millisecond)
					}
				}()
				time.Sleep(time.Second)
				line.set(true)
				time.Sleep(away)
				assert.NotEmpty(t, in.Unready(), "writes fail")
				line.set(false)
				w.enrichedNext(2000)
				w.quiet()
				assert.Empty(t, in.Unready())
				require.NoError(t, in.end())
			})
		})
	}
}

// Every kind of request that a transaction needs fails now and then, with every kind of error that a broker gives there.
func TestRandomFaults(t *testing.T) {
	type kind struct {
		key kmsg.Key
		top bool
		err []*kerr.Error
	}
	kinds := []kind{
		{kmsg.Produce, false, []*kerr.Error{kerr.NotLeaderForPartition, kerr.NotEnoughReplicas, kerr.RequestTimedOut, kerr.InvalidProducerEpoch, kerr.UnknownTopicOrPartition, kerr.TransactionAbortable}},
		{kmsg.TxnOffsetCommit, false, []*kerr.Error{kerr.CoordinatorNotAvailable, kerr.NotCoordinator, kerr.UnknownMemberID, kerr.IllegalGeneration, kerr.ConcurrentTransactions, kerr.UnknownServerError}},
		{kmsg.EndTxn, true, []*kerr.Error{kerr.CoordinatorLoadInProgress, kerr.NotCoordinator, kerr.UnknownServerError, kerr.ConcurrentTransactions, kerr.InvalidProducerEpoch, kerr.InvalidTxnState, kerr.ProducerFenced}},
		{kmsg.Heartbeat, true, []*kerr.Error{kerr.RebalanceInProgress, kerr.UnknownMemberID, kerr.CoordinatorNotAvailable}},
		{kmsg.InitProducerID, true, []*kerr.Error{kerr.ConcurrentTransactions, kerr.CoordinatorLoadInProgress, kerr.TransactionalIDAuthorizationFailed}},
		{kmsg.OffsetFetch, false, []*kerr.Error{kerr.UnstableOffsetCommit, kerr.CoordinatorLoadInProgress}},
		{kmsg.Fetch, false, []*kerr.Error{kerr.NotLeaderForPartition, kerr.UnknownServerError}},
		{kmsg.JoinGroup, true, []*kerr.Error{kerr.CoordinatorNotAvailable}},
		{kmsg.ListOffsets, false, []*kerr.Error{kerr.NotLeaderForPartition}},
	}
	for seed := range uint64(6) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			inWorld(t, func(w *world) {
				t := w.t
				rnd := rand.New(rand.NewPCG(seed, 7))
				in := w.start()
				for range 40 {
					w.produce(50)
					k := kinds[rnd.IntN(len(kinds))]
					w.cluster.Fault(kfake.Fault{
						Keys: []kmsg.Key{k.key}, TopLevel: k.top, Err: k.err[rnd.IntN(len(k.err))], Count: 1 + rnd.IntN(2), Group: groupOf(k.key), TxnID: txnOf(k.key), Topic: topicOf(k.key),
					})
					time.Sleep(time.Duration(rnd.IntN(400)) * time.Millisecond)
				}
				w.expect()
				require.NoError(t, in.end())
			})
		})
	}
}

// The selectors keep the faults away from the test's own client.
func groupOf(k kmsg.Key) string {
	if k == kmsg.TxnOffsetCommit || k == kmsg.Heartbeat || k == kmsg.OffsetFetch || k == kmsg.JoinGroup {
		return "g"
	}
	return ""
}

func txnOf(k kmsg.Key) string {
	if k == kmsg.EndTxn || k == kmsg.InitProducerID {
		return "g-a"
	}
	return ""
}

func topicOf(k kmsg.Key) string {
	switch k {
	case kmsg.Produce:
		return outTopic
	case kmsg.Fetch, kmsg.ListOffsets:
		return inTopic
	default:
		return ""
	}
}

func TestSecondOwnerOfAnInstanceID(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		w.produce(500)
		first := w.start()
		w.enrichedNext(500)
		second := w.start()
		w.produce(500)
		w.enrichedNext(500)
		select {
		case err := <-first.done:
			require.ErrorIs(t, err, errSecondOwner)
			require.NoError(t, second.end())
		case err := <-second.done:
			require.ErrorIs(t, err, errSecondOwner)
			require.NoError(t, first.end())
		case <-time.After(time.Minute):
			require.Fail(t, "both go on")
		}
		w.quiet()
	})
}

// Instances come and go under load; every fact comes out once.
func TestRebalances(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		stop, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			for {
				select {
				case <-stop:
					return
				default:
				}
				w.produce(100)
				time.Sleep(50 * time.Millisecond)
			}
		}()
		named := func(id string) func(*Options) { return func(o *Options) { o.InstanceID = id } }
		a := w.start(named("a"))
		time.Sleep(3 * time.Second)
		b := w.start(named("b"))
		time.Sleep(5 * time.Second)
		line := &cable{w: w}
		c := w.start(named("c"), via(line), func(o *Options) { o.Grace = time.Second })
		time.Sleep(5 * time.Second)
		for _, in := range []*instance{a, b, c} {
			assert.Empty(t, in.Unready())
			assert.NotEmpty(t, in.Status().Inputs)
		}
		require.NoError(t, a.end())
		time.Sleep(5 * time.Second)
		line.set(true) // c is killed
		c.stop()
		time.Sleep(60 * time.Second)
		a = w.start(named("a"))
		time.Sleep(5 * time.Second)
		require.NoError(t, b.end())
		time.Sleep(5 * time.Second)
		close(stop)
		<-done
		w.expect()
		require.NoError(t, a.end())
		require.NoError(t, <-c.done)
	}, kfake.NumBrokers(3), kfake.Ports(9092, 9093, 9094))
}

// A member without Kafka partitions is ready.
func TestMemberWithoutPartitions(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		var all []*instance
		for i := range 5 {
			all = append(all, w.start(func(o *Options) { o.InstanceID = fmt.Sprint("i", i) }))
		}
		time.Sleep(30 * time.Second)
		empty := 0
		for _, in := range all {
			assert.Empty(t, in.Unready())
			if len(in.Status().Inputs) == 0 {
				empty++
			}
		}
		assert.Equal(t, 1, empty)
		w.produce(100)
		w.expect()
		for _, in := range all {
			require.NoError(t, in.end())
		}
	})
}

// A log that was cut and has grown past the commit again shows by its epochs only.
func TestCutLog(t *testing.T) {
	for _, onGap := range []string{OnGapFail, OnGapContinue} {
		t.Run(onGap, func(t *testing.T) {
			inWorld(t, func(w *world) {
				t := w.t
				in := w.start()
				w.produce(400)
				w.enrichedNext(400)
				require.NoError(t, in.end())
				w.cutAt(2, 60)
				in = w.start(func(o *Options) { o.OnGap = onGap })
				if onGap == OnGapFail {
					var g gap
					require.ErrorAs(t, <-in.done, &g)
					assert.Equal(t, gap{laneID{inTopic, 2}, 100, logBounds{0, 60}}, g)
					in.stop()
					return
				}
				for _, r := range w.read(40) {
					id := r.Timestamp.UnixMilli() - 1000
					assert.Equal(t, int64(2), id%4)
					assert.GreaterOrEqual(t, id/4, int64(60))
				}
				w.quiet()
				assert.Empty(t, in.Unready())
				require.NoError(t, in.end())
			})
		})
	}
}

// cutAt makes the brokers say that the log of an input Kafka partition ended at an offset in every epoch so far.
func (w *world) cutAt(partition int32, offset int64) {
	w.cluster.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		w.cluster.KeepControl()
		req := kreq.(*kmsg.OffsetForLeaderEpochRequest)
		resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
		for _, rt := range req.Topics {
			st := kmsg.NewOffsetForLeaderEpochResponseTopic()
			st.Topic = rt.Topic
			for _, rp := range rt.Partitions {
				sp := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
				sp.Partition, sp.LeaderEpoch, sp.EndOffset = rp.Partition, rp.LeaderEpoch, 1000
				if rp.Partition == partition {
					sp.EndOffset = offset
				}
				st.Partitions = append(st.Partitions, sp)
			}
			resp.Topics = append(resp.Topics, st)
		}
		return resp, nil, true
	})
}
