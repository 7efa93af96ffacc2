package pipeline

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// cable is a network connection that can be cut: what a killed or paused process, or a broker that is gone, looks like to the other side.
type cable struct {
	w     *world
	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

func (c *cable) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut {
		return nil, errors.New("the cable is cut")
	}
	conn, err := c.w.net.DialContext(ctx, network, address)
	if err == nil {
		c.conns = append(c.conns, conn)
	}
	return conn, err
}

func (c *cable) set(cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = cut
	if cut {
		for _, conn := range c.conns {
			conn.Close()
		}
		c.conns = nil
	}
}

func via(c *cable) func(*Options) {
	return func(o *Options) { o.Client = []kgo.Opt{kgo.SeedBrokers("localhost:9092"), kgo.Dialer(c.dial)} }
}

func TestRefusedRecordsAreDeadLetters(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		holds := func(marks ...string) func(kmsg.Request) bool {
			return func(req kmsg.Request) bool {
				for _, topic := range req.(*kmsg.ProduceRequest).Topics {
					for _, p := range topic.Partitions {
						for _, mark := range marks {
							if bytes.Contains(p.Records, []byte(mark)) {
								return true
							}
						}
					}
				}
				return false
			}
		}
		w.cluster.Fault(
			kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: outTopic, Err: kerr.InvalidTimestamp, Count: -1, When: holds(`{"id":120,`, `{"id":121,`, `{"id":777,`)},
			// The dead letter of 777 is refused too, until it goes without its value.
			kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: dlTopic, Err: kerr.MessageTooLarge, Count: -1, When: holds(`{"id":777,`)},
		)
		in := w.start()
		w.produce(1000)
		var good []*kgo.Record
		bad := map[string]*kgo.Record{}
		for _, r := range w.read(1000) {
			if r.Topic == outTopic {
				good = append(good, r)
				continue
			}
			bad[strconv.FormatInt(r.Timestamp.UnixMilli()-1000, 10)] = r
		}
		w.exactlyOnce(good)
		require.Len(t, bad, 3)
		for id, r := range bad {
			assert.Equal(t, ClassRejected, header(r, HeaderClass), id)
			assert.Equal(t, StageOutput, header(r, HeaderStage), id)
			assert.Contains(t, header(r, HeaderMessage), "orders_enriched", id)
		}
		assert.Equal(t, `{"id":120,"cust":120}`, string(bad["120"].Value))
		assert.Nil(t, bad["777"].Value)
		assert.Equal(t, "true", header(bad["777"], HeaderTruncated))
		w.quiet()
		assert.Equal(t, map[string]int64{"written": 997, "dead_lettered": 3, "dropped": 0, "skipped": 0, "passed": 0}, in.Status().Facts)
		require.NoError(t, in.end())
	})
}

func header(r *kgo.Record, key string) string {
	for _, h := range r.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

func (w *world) deleteOutput() {
	w.client.PurgeTopicsFromClient(outTopic)
	require.NoError(w.t, w.cluster.DeleteTopic(outTopic))
}

func (w *world) createOutput() {
	require.NoError(w.t, w.cluster.CreateTopic(outTopic, 4, nil))
	w.client.AddConsumeTopics(outTopic)
}

func TestOutputTopicMissing(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		w.deleteOutput()
		in := w.start()
		w.produce(100)
		time.Sleep(15 * time.Second)
		reasons := in.Unready()
		require.NotEmpty(t, reasons)
		assert.Equal(t, Reason{"output_topic_missing", outTopic}, reasons[0])
		w.createOutput()
		w.enrichedNext(100)
		time.Sleep(15 * time.Second)
		assert.Empty(t, in.Unready())

		// Gone while facts flow: nothing is dead-lettered, nothing twice.
		w.deleteOutput()
		w.produce(100)
		time.Sleep(30 * time.Second)
		assert.NotEmpty(t, in.Unready())
		w.createOutput()
		w.enrichedNext(100)
		w.quiet()
		assert.Empty(t, in.Unready())
		require.NoError(t, in.end())
	})
}

func TestStopWhileTheBrokerIsGone(t *testing.T) {
	for _, delivery := range []string{ExactlyOnce, AtLeastOnce} {
		t.Run(delivery, func(t *testing.T) {
			inWorld(t, func(w *world) {
				t := w.t
				line := &cable{w: w}
				in := w.start(via(line), func(o *Options) { o.Delivery = delivery })
				w.produce(100)
				w.enrichedNext(100)
				w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: outTopic, Err: kerr.NotEnoughReplicas, Count: -1})
				w.produce(100)
				time.Sleep(time.Second)
				line.set(true)
				start := time.Now()
				require.NoError(t, in.end())
				assert.LessOrEqual(t, time.Since(start), 30*time.Second+2*closeTimeout)
			})
		})
	}
}

func TestStoreFailureEndsTheService(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		damaged := errors.New("checksum mismatch")
		in := w.start(func(o *Options) { o.Plan = planOf(t, customers{damaged}) })
		w.produce(10)
		require.ErrorIs(t, <-in.done, damaged)
		in.stop()
		w.quiet()
	})
}

func TestGapInTheInput(t *testing.T) {
	for _, onGap := range []string{OnGapFail, OnGapContinue} {
		t.Run(onGap, func(t *testing.T) {
			inWorld(t, func(w *world) {
				t := w.t
				in := w.start()
				w.produce(400)
				w.enrichedNext(400)
				require.NoError(t, in.end())
				w.produce(400)
				require.NoError(t, w.cluster.DeleteRecords(inTopic, 2, 150))
				in = w.start(func(o *Options) { o.OnGap = onGap })
				if onGap == OnGapFail {
					err := <-in.done
					var g gap
					require.ErrorAs(t, err, &g)
					assert.Equal(t, gap{laneID{inTopic, 2}, 100, logBounds{150, 200}}, g)
					in.stop()
					return
				}
				w.enrichedNext(350)
				w.quiet()
				require.NoError(t, in.end())
			})
		})
	}
}

// Facts whose offsets a former commit recorded as finished beyond its offset are not written again.
func TestFinishedSetIsSkipped(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		w.produce(400) // 100 in each Kafka partition: ids 4n+p
		meta, ok := encodeFinished(position{Offset: 10, Finished: []run{{20, 30}, {40, 100}}})
		require.True(t, ok)
		admin := kadm.NewClient(w.client)
		commit := kadm.Offsets{}
		commit.Add(kadm.Offset{Topic: inTopic, Partition: 1, At: 10, LeaderEpoch: -1, Metadata: meta})
		commit.Add(kadm.Offset{Topic: inTopic, Partition: 2, At: 10, LeaderEpoch: -1, Metadata: "of another client"})
		require.NoError(t, admin.CommitAllOffsets(t.Context(), "g", commit))
		in := w.start()
		recs := w.read(100 + 20 + 90 + 100)
		w.exactlyOnce(recs)
		w.quiet()
		require.NoError(t, in.end())
		offsets, err := admin.FetchOffsets(t.Context(), "g")
		require.NoError(t, err)
		for p := range int32(4) {
			o, _ := offsets.Lookup(inTopic, p)
			assert.Equal(t, int64(100), o.At)
			assert.Empty(t, o.Metadata)
		}
	})
}
