package changelog

import (
	"encoding/binary"
	"hash/crc32"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// rewrite lets the brokers answer fetches with batches changed by fn, which may drop them (nil).
func (w *world) rewrite(fn func(first int64, batch []byte) []byte) {
	// The control sees requests only, so the logs are read first.
	logs := map[int32]kmsg.FetchResponseTopicPartition{}
	var id [16]byte
	for _, p := range w.cluster.PartitionInfos(topic) {
		req := kmsg.NewPtrFetchRequest()
		req.IsolationLevel = 1
		rt := kmsg.NewFetchRequestTopic()
		id = w.cluster.TopicInfo(topic).TopicID
		rt.Topic, rt.TopicID = topic, id
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.Partition, rp.PartitionMaxBytes = p.Partition, 1<<30
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		kresp, err := w.cl.Broker(int(w.cluster.LeaderFor(topic, p.Partition))).RetriableRequest(w.t.Context(), req)
		require.NoError(w.t, err)
		logs[p.Partition] = kresp.(*kmsg.FetchResponse).Topics[0].Partitions[0]
	}
	w.cluster.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		w.cluster.KeepControl()
		req := kreq.(*kmsg.FetchRequest)
		if len(req.Topics) == 0 { // the session's way to ask for the same again
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.FetchResponse)
		for _, t := range req.Topics {
			st := kmsg.NewFetchResponseTopic()
			st.Topic, st.TopicID = topic, id
			for _, p := range t.Partitions {
				log := logs[p.Partition]
				log.RecordBatches = batchesFrom(log.RecordBatches, p.FetchOffset, fn)
				st.Partitions = append(st.Partitions, log)
			}
			resp.Topics = append(resp.Topics, st)
		}
		if wait := time.Duration(req.MaxWaitMillis) * time.Millisecond; wait > 0 && empty(resp) {
			w.cluster.SleepControl(func() { time.Sleep(wait) })
		}
		return resp, nil, true
	})
}

func empty(resp *kmsg.FetchResponse) bool {
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if len(p.RecordBatches) > 0 {
				return false
			}
		}
	}
	return true
}

// batchesFrom is what a fetch at an offset sees of a log.
func batchesFrom(log []byte, at int64, fn func(first int64, batch []byte) []byte) []byte {
	out := []byte{}
	for len(log) > 12 {
		var b kmsg.RecordBatch
		size := 12 + int(int32(uint32(log[8])<<24|uint32(log[9])<<16|uint32(log[10])<<8|uint32(log[11])))
		if err := b.ReadFrom(log[:size]); err != nil {
			panic(err)
		}
		if b.FirstOffset+int64(b.LastOffsetDelta) >= at {
			out = append(out, fn(b.FirstOffset, log[:size])...)
		}
		log = log[size:]
	}
	return out
}

// compactAway empties batches and keeps their headers, as the log cleaner does with the last batch of a producer.
func (w *world) compactAway(which func(first int64) bool) {
	w.rewrite(func(first int64, batch []byte) []byte {
		if !which(first) {
			return batch
		}
		return emptied(batch)
	})
}

// removeBatches takes batches away.
func (w *world) removeBatches(which func(first int64) bool) {
	w.rewrite(func(first int64, batch []byte) []byte {
		if !which(first) {
			return batch
		}
		return nil
	})
}

// emptied is the batch without its records: the header keeps its offsets.
func emptied(batch []byte) []byte {
	var b kmsg.RecordBatch
	if err := b.ReadFrom(batch); err != nil {
		panic(err)
	}
	b.NumRecords, b.Records = 0, nil
	b.Length = int32(len(b.AppendTo(nil)) - 12)
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}
