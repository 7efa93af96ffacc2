package pipeline

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestDeadLetter(t *testing.T) {
	at := time.UnixMilli(1234)
	rec := &kgo.Record{Key: []byte("k"), Value: []byte("{"), Timestamp: at, Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("1")}, {Key: "h"}}}
	from := origin{"orders", 2, 42}
	f := failure{StageInput, "decode", "unexpected end", ""}
	headers := func(l *kgo.Record) map[string]string {
		m := map[string]string{}
		for _, h := range l.Headers[2:] {
			m[strings.TrimPrefix(h.Key, HeaderPrefix)] = string(h.Value)
		}
		return m
	}
	whole := map[string]string{
		"stage": "input", "class": "decode", "message": "unexpected end", "topic": "orders", "partition": "2", "offset": "42", "timestamp": "1234", "instance": "a",
	}

	l := deadLetter(rec, "dlq", "a", from, f, letterWhole, 1<<20)
	assert.Equal(t, rec.Headers, l.Headers[:2], "the record's own headers come first, null values stay null")
	assert.Equal(t, whole, headers(l))
	assert.Equal(t, []any{"dlq", "k", "{", at}, []any{l.Topic, string(l.Key), string(l.Value), l.Timestamp})

	whole["truncated"] = "true"
	for name, l := range map[string]*kgo.Record{
		"too large": deadLetter(rec, "dlq", "a", from, f, letterWhole, 10), "refused": deadLetter(rec, "dlq", "a", from, f, letterTruncated, 1<<20),
	} {
		assert.Nil(t, l.Value, name)
		assert.Equal(t, whole, headers(l), name)
		assert.Equal(t, at, l.Timestamp, name)
	}
	assert.True(t, deadLetter(rec, "dlq", "a", from, f, letterBare, 1<<20).Timestamp.IsZero(), "the client stamps it")

	f.dimension, f.message = "customer", strings.Repeat("x", 5000)
	l = deadLetter(rec, "dlq", "a", from, f, letterWhole, 1<<20)
	assert.Equal(t, "customer", headers(l)["dimension"])
	assert.Len(t, headers(l)["message"], maxMessage)
}
