package pipeline

import "github.com/twmb/franz-go/pkg/kgo"

// stickyBytes is after how many bytes of records without a key the next Kafka partition is taken (KIP-794). It is smaller than Java's
// batch.size, so that a trickle is spread as well.
const stickyBytes = 8 << 10

// partitioner sends records to the Kafka partition that the Java client would choose: murmur2 of the key, records without a key spread
// in runs. Records of one topic, when it names one, keep the Kafka partition that is set on them.
type partitioner struct {
	byKey  kgo.Partitioner
	manual kgo.Partitioner
	topic  string
}

func newPartitioner(manualTopic string) partitioner {
	return partitioner{kgo.UniformBytesPartitioner(stickyBytes, false, true, nil), kgo.ManualPartitioner(), manualTopic}
}

// ForTopic returns the partitioner of one topic.
func (p partitioner) ForTopic(topic string) kgo.TopicPartitioner {
	if p.topic != "" && topic == p.topic {
		return p.manual.ForTopic(topic)
	}
	return p.byKey.ForTopic(topic)
}
