package dimstore

import "bytes"

// stamp is what decides which of two changes to one key is the newer.
type stamp struct {
	bucket            uint32 // number
	offset, timestamp int64
	version           []byte
}

// newer decides between a change and what is stored under its key, by one of the modes of Options.Version. buckets are those of the generation,
// by number.
func newer(mode string, buckets []bucket, a, old stamp) bool {
	switch mode {
	case VersionColumn:
		if c := bytes.Compare(a.version, old.version); c != 0 {
			return c > 0
		}
	case VersionTimestamp:
		if a.timestamp != old.timestamp {
			return a.timestamp > old.timestamp
		}
	}
	switch {
	case a.bucket == old.bucket:
		return a.offset > old.offset
	case a.timestamp != old.timestamp:
		return a.timestamp > old.timestamp
	default:
		return buckets[a.bucket].id.higher(buckets[old.bucket].id)
	}
}
