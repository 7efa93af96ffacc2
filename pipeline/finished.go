package pipeline

import (
	"encoding/base64"
	"encoding/binary"
	"strings"
)

// The finished set travels in the metadata of the offset commit, which Kafka keeps as a string of at most 4,096 bytes
// (offset.metadata.max.bytes). The form is
//
//	enricher:1:<base64 of uvarints>
//
// where the uvarints are pairs (gap, length), each gap counted from the end of the run before it, the first from the committed offset.
// 1 is the version: a reader that does not know a version, or finds something else, takes it for an empty set. That is safe: an empty set
// repeats facts (they come out twice only if another client overwrote the metadata of a committed offset), it never loses one.
const (
	finishedPrefix = "enricher:1:"
	// maxFinished is the greatest metadata that is written, in bytes. Brokers take 4,096.
	maxFinished = 4000
)

// encodeFinished renders the runs above offset. It returns false when they don't fit.
func encodeFinished(p position) (string, bool) {
	if len(p.Finished) == 0 {
		return "", true
	}
	buf := make([]byte, 0, 4*len(p.Finished))
	last := p.Offset
	for _, r := range p.Finished {
		buf = binary.AppendUvarint(buf, uint64(r.From-last))
		buf = binary.AppendUvarint(buf, uint64(r.To-r.From))
		last = r.To
	}
	s := finishedPrefix + base64.RawStdEncoding.EncodeToString(buf)
	return s, len(s) <= maxFinished
}

// decodeFinished reads what encodeFinished wrote for a commit of offset. Anything else means no set.
func decodeFinished(offset int64, metadata string) []run {
	body, ok := strings.CutPrefix(metadata, finishedPrefix)
	if !ok {
		return nil
	}
	buf, err := base64.RawStdEncoding.DecodeString(body)
	if err != nil {
		return nil
	}
	var runs []run
	last := offset
	for len(buf) > 0 {
		gap, n := binary.Uvarint(buf)
		if n <= 0 {
			return nil
		}
		length, m := binary.Uvarint(buf[n:])
		if m <= 0 || gap == 0 || length == 0 {
			return nil
		}
		buf = buf[n+m:]
		r := run{From: last + int64(gap)}
		r.To = r.From + int64(length)
		if r.From <= last || r.To <= r.From { // overflow: not ours
			return nil
		}
		runs = append(runs, r)
		last = r.To
	}
	return runs
}
