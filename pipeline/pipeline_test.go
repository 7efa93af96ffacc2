package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestFactsEnrichedExactlyOnce(t *testing.T) {
	for _, delivery := range []string{ExactlyOnce, AtLeastOnce} {
		t.Run(delivery, func(t *testing.T) {
			inWorld(t, func(w *world) {
				t := w.t
				w.produce(5000)
				in := w.start(func(o *Options) { o.Delivery = delivery })
				w.expect()
				assert.Empty(t, in.Unready())
				st := in.Status()
				assert.True(t, st.Member)
				assert.Zero(t, st.InFlight)
				assert.Equal(t, int64(5000), st.Facts["written"])
				assert.Equal(t, []LookupStatus{{"customer", 5000, map[string]int64{}}}, st.Lookups)
				require.Len(t, st.Inputs, 4)
				for i, lane := range st.Inputs {
					assert.Equal(t, InputStatus{Topic: inTopic, Partition: int32(i), Committed: 1250, Read: 1250, End: 1250}, lane)
				}
				require.NoError(t, in.end())

				again := w.start(func(o *Options) { o.Delivery = delivery })
				w.quiet() // all is committed
				require.NoError(t, again.end())
			})
		})
	}
}

// A fact's key, headers and timestamp reach the output as they are.
func TestRecordIsKept(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		in := w.start()
		facts := []*kgo.Record{
			{Key: []byte("k"), Value: []byte(`{"cust":1,"x":9007199254740993,"z":1.10 }`), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("1")}, {Key: "h"}, {Key: "", Value: []byte{}}}},
			{Key: []byte{}, Value: []byte(`{"cust":2}`)},
			{Key: nil, Value: []byte(`{"cust":3}`)},
			{Key: []byte("tombstone"), Value: nil, Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("1")}}},
		}
		for i, f := range facts {
			f.Topic, f.Timestamp = inTopic, time.UnixMilli(int64(1000+i))
		}
		w.write(facts...)
		got := map[int64]*kgo.Record{}
		for _, r := range w.read(4) {
			got[r.Timestamp.UnixMilli()-1000] = r
		}
		values := []any{`{"cust":1,"x":9007199254740993,"z":1.10 ,"name":"c1"}`, `{"cust":2,"name":"c2"}`, `{"cust":3,"name":"c3"}`, nil}
		for i := range values {
			r := got[int64(i)]
			require.NotNil(t, r, i)
			if values[i] == nil {
				assert.Nil(t, r.Value)
			} else {
				assert.Equal(t, values[i], string(r.Value))
			}
			assert.Equal(t, facts[i].Key, r.Key, "null is not empty")
			assert.Len(t, r.Headers, len(facts[i].Headers))
			for j, h := range facts[i].Headers {
				assert.Equal(t, h.Key, r.Headers[j].Key)
				assert.Equal(t, h.Value == nil, r.Headers[j].Value == nil, "a null header stays null")
				assert.Equal(t, string(h.Value), string(r.Headers[j].Value))
			}
		}
		time.Sleep(time.Second) // a fact can be read a moment before it is counted
		assert.Equal(t, int64(1), in.Status().Facts["passed"])
		require.NoError(t, in.end())
	})
}

func TestPartitions(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		require.NoError(t, w.cluster.CreateTopic("spread", 6, nil))
		in := w.start(func(o *Options) { o.OutputTopic = "spread" })
		w.client.AddConsumeTopics("spread")
		used := map[int32]int{}
		for i := range 1000 {
			w.write(&kgo.Record{Topic: inTopic, Value: fmt.Appendf(nil, `{"id":%d,"cust":1}`, i)})
		}
		for _, r := range w.read(1000) {
			assert.Nil(t, r.Key)
			used[r.Partition]++
		}
		assert.Greater(t, len(used), 1, "records without a key are spread")
		require.NoError(t, in.end())
	})
	inWorld(t, func(w *world) {
		t := w.t
		in := w.start(func(o *Options) { o.Partition = PartitionInput })
		w.produce(400)
		for _, r := range w.read(400) {
			var e enriched
			require.NoError(t, json.Unmarshal(r.Value, &e))
			assert.Equal(t, int32(e.ID%4), r.Partition)
		}
		require.NoError(t, in.end())

		require.NoError(t, w.cluster.CreateTopic("narrow", 3, nil))
		in = w.start(func(o *Options) { o.Partition, o.OutputTopic = PartitionInput, "narrow" })
		require.ErrorContains(t, <-in.done, "topic orders has 4 Kafka partitions and output topic narrow only 3")
		in.stop()
	})
}

// The murmur2 of the Java client, golden values from it.
func TestPartitionerIsJavas(t *testing.T) {
	p := newPartitioner("").ForTopic("t").(kgo.TopicBackupPartitioner)
	assert.Equal(t, 9, p.PartitionByBackup(&kgo.Record{Key: []byte("100:48069")}, 12, nil))
	assert.Equal(t, 26, p.PartitionByBackup(&kgo.Record{Key: []byte("fd7af248-ce5c-46a5-93d7-1c0c9005b99d")}, 32, nil))
}

func TestBadFacts(t *testing.T) {
	bad := []string{"", "{", "\xff", `{"cust":1} x`, "[1]", `"s"`, strings.Repeat("[", 20000) + strings.Repeat("]", 20000)}
	send := func(w *world) {
		w.produce(4)
		for _, v := range bad {
			w.write(&kgo.Record{Topic: inTopic, Partition: 1, Key: []byte("k"), Value: []byte(v), Timestamp: time.UnixMilli(5)})
		}
		w.produce(4)
	}
	t.Run(OnErrorDeadLetter, func(t *testing.T) {
		inWorld(t, func(w *world) {
			t := w.t
			in := w.start()
			send(w)
			var letters []*kgo.Record
			for _, r := range w.read(8 + len(bad)) {
				if r.Topic == dlTopic {
					letters = append(letters, r)
				}
			}
			require.Len(t, letters, len(bad))
			for i, r := range letters {
				assert.Equal(t, bad[i], string(r.Value))
				assert.NotNil(t, r.Value, "empty is not null")
				assert.Equal(t, int64(5), r.Timestamp.UnixMilli())
				want := map[string]string{HeaderStage: StageInput, HeaderClass: "decode", HeaderTopic: inTopic, HeaderPartition: "1", HeaderOffset: strconv.Itoa(1 + i), HeaderTimestamp: "5", HeaderInstance: "a"}
				for k, v := range want {
					assert.Equal(t, v, header(r, k), k)
				}
			}
			synctest.Wait() // the results are out before the instance knows of its commit
			assert.Equal(t, int64(len(bad)), in.Status().Facts["dead_lettered"])
			assert.Len(t, in.Status().DeadLetters, len(bad))
			require.NoError(t, in.end())
		})
	})
	t.Run(OnErrorSkip, func(t *testing.T) {
		inWorld(t, func(w *world) {
			t := w.t
			in := w.start(func(o *Options) { o.OnError, o.DeadLetterTopic = OnErrorSkip, "" })
			send(w)
			w.expect()
			assert.Equal(t, int64(len(bad)), in.Status().Facts["skipped"])
			require.NoError(t, in.end())
		})
	})
	t.Run(OnErrorFail, func(t *testing.T) {
		inWorld(t, func(w *world) {
			t := w.t
			w.produce(8)
			in := w.start(func(o *Options) { o.OnError, o.DeadLetterTopic = OnErrorFail, "" })
			w.enrichedNext(8)
			w.write(&kgo.Record{Topic: inTopic, Partition: 1, Value: []byte("{")})
			require.ErrorContains(t, <-in.done, "fact of topic orders, partition 1, offset 2: decode: ")
			in.stop()
			w.quiet()
		})
	})
}

func TestTooLarge(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		in := w.start(func(o *Options) { o.MaxRecordSize = 600 })
		w.produce(4)
		w.write(
			&kgo.Record{Topic: inTopic, Value: fmt.Appendf(nil, `{"cust":1,"pad":%q}`, strings.Repeat("x", 570))},
			&kgo.Record{Topic: inTopic, Value: fmt.Appendf(nil, `{"cust":1,"pad":%q}`, strings.Repeat("x", 10_000))},
		)
		w.produce(4)
		var letters []*kgo.Record
		for _, r := range w.read(10) {
			if r.Topic == dlTopic {
				letters = append(letters, r)
			}
		}
		require.Len(t, letters, 2, "the one that fits without its enrichment, and the one that never does")
		for _, r := range letters {
			assert.Equal(t, ClassTooLarge, header(r, HeaderClass))
			assert.Equal(t, StageOutput, header(r, HeaderStage))
			assert.Nil(t, r.Value, "the letter with its headers is too large as well")
			assert.Equal(t, "true", header(r, HeaderTruncated))
		}
		require.NoError(t, in.end())
	})
}

func TestStart(t *testing.T) {
	for name, tc := range map[string]struct {
		start Start
		want  int // facts of the 400 written before the start
	}{
		"earliest": {Start{}, 400},
		"latest":   {Start{Latest: true}, 0},
		"time":     {Start{At: time.UnixMilli(1000 + 300)}, 100},
		"the end":  {Start{At: time.UnixMilli(1_000_000)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				t := w.t
				w.produce(400)
				in := w.start(func(o *Options) { o.Start = tc.start })
				time.Sleep(5 * time.Second)
				// The beginning is committed without a fact, so another member that gets the Kafka partitions begins there too.
				offsets, err := kadm.NewClient(w.client).FetchOffsets(t.Context(), "g")
				require.NoError(t, err)
				require.Len(t, offsets[inTopic], 4)
				w.produce(100)
				w.enrichedNext(tc.want + 100)
				w.quiet()
				require.NoError(t, in.end())
			})
		})
	}
	t.Run("a new partition of a known group begins at its start", func(t *testing.T) {
		inWorld(t, func(w *world) {
			t := w.t
			in := w.start(func(o *Options) { o.Start = Start{Latest: true} })
			time.Sleep(5 * time.Second)
			_, err := kadm.NewClient(w.client).CreatePartitions(t.Context(), 1, inTopic)
			require.NoError(t, err)
			w.client.ForceMetadataRefresh()
			time.Sleep(time.Second)
			w.write(&kgo.Record{Topic: inTopic, Partition: 4, Value: []byte(`{"id":0,"cust":0}`), Timestamp: time.UnixMilli(1000)})
			w.sent = 1
			w.expect()
			require.NoError(t, in.end())
		})
	})
}

func TestCreateTopics(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		in := w.start(func(o *Options) { o.OutputTopic, o.DeadLetterTopic, o.CreateTopics = "new_out", "new_dead", true })
		w.produce(100)
		time.Sleep(5 * time.Second)
		w.client.AddConsumeTopics("new_out")
		assert.Len(t, w.read(100), 100)
		require.NotNil(t, w.cluster.TopicInfo("new_dead"))
		require.NoError(t, in.end())
	})
}

func TestStopByInstanceID(t *testing.T) {
	for name, leave := range map[string]bool{"a kept id leaves at once": true, "a chosen id keeps its place": false} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				t := w.t
				in := w.start(func(o *Options) { o.LeaveOnStop = leave })
				w.produce(100)
				w.enrichedNext(100)
				require.NoError(t, in.end())
				members := 1
				if leave {
					members = 0
				}
				assert.Len(t, w.cluster.GroupInfo("g").Members, members)
			})
		})
	}
}

// Not more than the capacity is in flight while nothing can be written.
func TestCapacity(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		w.produce(5000)
		refused := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: outTopic, Err: kerr.NotEnoughReplicas, Count: -1})
		in := w.start(func(o *Options) { o.Capacity = 1000; o.Delivery = AtLeastOnce })
		time.Sleep(15 * time.Second)
		assert.Equal(t, int64(1000), in.Status().InFlight)
		assert.NotEmpty(t, in.Unready(), "writes fail")
		refused.Remove()
		w.expect()
		require.NoError(t, in.end())
	})
}

func TestOptionsMissing(t *testing.T) {
	_, err := New(Options{})
	require.ErrorContains(t, err, "no input topic")
	assert.ErrorContains(t, err, "no plan")
}

func TestDimensionDeadLetters(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		refused := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: dlTopic, Err: kerr.InvalidTimestamp, Count: 3})
		d, err := NewDeadLetters(w.connection(), dlTopic, false, "a", 1<<20)
		require.NoError(t, err)
		defer d.Close()
		rec := &kgo.Record{Topic: "customer", Partition: 3, Offset: 7, Key: []byte("k"), Value: []byte("x"), Timestamp: time.UnixMilli(9)}
		require.NoError(t, d.Dimension(t.Context(), "cust", rec, "decode", "not JSON"))
		assert.Equal(t, 3, refused.Hits())
		got := w.read(1)[0]
		assert.Nil(t, got.Value, "the last form is the bare one")
		for k, v := range map[string]string{HeaderStage: StageDimension, HeaderDimension: "cust", HeaderOffset: "7", HeaderTimestamp: "9", HeaderTopic: "customer"} {
			assert.Equal(t, v, header(got, k), k)
		}
		w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: dlTopic, Err: kerr.InvalidTimestamp, Count: 4})
		require.ErrorContains(t, d.Dimension(t.Context(), "cust", rec, "decode", "not JSON"), "write dead letter of customer, partition 3, offset 7")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		assert.ErrorIs(t, d.Dimension(ctx, "cust", rec, "decode", "not JSON"), context.Canceled)
	})
}
