package dimstore

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"time"
)

// Kinds, the first byte of every key. The package comment has the layout.
const (
	kindBucket    = 'b'
	kindPartition = 'c'
	kindDropped   = 'd'
	kindFiller    = 'f'
	kindIndex     = 'i'
	kindMeta      = 'm'
	kindPart      = 'o'
	kindRow       = 'r'
	kindCommit    = 's'
)

const (
	// maxInlineKey is the longest key stored as it is, kind included. A longer one is stored as its first maxInlineKey bytes and a SHA-256,
	// so the two never meet: their lengths differ.
	maxInlineKey = 32 << 10
	longKey      = maxInlineKey + sha256.Size

	// The same for the keys of index entries. They are shorter, for one change may write many of them into one transaction.
	maxIndexKey  = 4 << 10
	longIndexKey = maxIndexKey + sha256.Size
)

// castagnoli is the polynomial of all checksums.
//
//nolint:gochecknoglobals // a table that never changes
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// shorten replaces what stands in dst from start on by its stored form, when it is longer than limit.
func shorten(dst []byte, start, limit int) []byte {
	if len(dst)-start <= limit {
		return dst
	}
	sum := sha256.Sum256(dst[start:])
	return append(dst[:start+limit], sum[:]...)
}

// partitionNumberSize is the length of the number of a partition in the keys of its rows, at partitionNumberAt.
const (
	partitionNumberAt   = 1
	partitionNumberSize = 4
)

// appendRowKey appends the key of a row before it is shortened.
func appendRowKey(dst []byte, partition uint32, key []byte) []byte {
	dst = append(dst, kindRow)
	dst = binary.BigEndian.AppendUint32(dst, partition)
	return append(dst, key...)
}

// partitionKey is the stored key of a partition's record.
func partitionKey(tuple []byte) []byte {
	return shorten(append([]byte{kindPartition}, tuple...), 0, maxInlineKey)
}

func droppedKey(number uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{kindDropped}, number)
}

func bucketKey(number uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{kindBucket}, number)
}

func partKey(id uint64, part uint32) []byte {
	k := binary.BigEndian.AppendUint64([]byte{kindPart}, id)
	return binary.BigEndian.AppendUint32(k, part)
}

func parsePartKey(k []byte) (id uint64, part uint32, ok bool) {
	if len(k) != 13 || k[0] != kindPart {
		return 0, 0, false
	}
	return binary.BigEndian.Uint64(k[1:]), binary.BigEndian.Uint32(k[9:]), true
}

const (
	flagMark    = 1 << iota // the row was deleted
	flagLong                // the payload has the length of the full key, and the full key, before the row
	flagParts               // the payload is elsewhere: id, number of parts, length
	flagVersion             // the payload begins with the length of the version, and the version
)

// header stands in front of every row and mark: what the version check needs.
type header struct {
	flags     byte
	bucket    uint32 // number of the bucket
	offset    int64
	timestamp int64
}

func (h header) stamp(version []byte) stamp {
	return stamp{h.bucket, h.offset, h.timestamp, version}
}

// maxHeader is the greatest length of an encoded header.
const maxHeader = 1 + binary.MaxVarintLen32 + 2*binary.MaxVarintLen64

// parts names the parts of a payload that is stored elsewhere.
type parts struct {
	id    uint64
	count uint32
	size  int
}

const checksumSize = 4

func (h header) append(dst []byte) []byte {
	dst = append(dst, h.flags)
	dst = binary.AppendUvarint(dst, uint64(h.bucket))
	dst = binary.AppendUvarint(dst, uint64(h.offset))
	return binary.AppendVarint(dst, h.timestamp)
}

// appendChecksum appends the checksum of a key and of all of value, and closes the value by it.
func appendChecksum(value, key []byte) []byte {
	return binary.BigEndian.AppendUint32(value, checksum(value, key))
}

func checksum(value, key []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
}

// checked returns a stored value without its checksum.
func checked(key, value []byte) ([]byte, error) {
	n := len(value) - checksumSize
	if n < 0 || binary.BigEndian.Uint32(value[n:]) != checksum(value[:n], key) {
		return nil, fmt.Errorf("%w: checksum of an entry of kind %q", ErrDamaged, key[0])
	}
	return value[:n], nil
}

// parseRow splits a stored row or mark into header and payload.
func parseRow(key, value []byte) (h header, payload []byte, err error) {
	b, err := checked(key, value)
	if err != nil {
		return h, nil, err
	}
	r := reader{b: b}
	h.flags = r.byte()
	h.bucket = uint32(r.uvarint())
	h.offset = int64(r.uvarint())
	h.timestamp = r.varint()
	if r.bad {
		return h, nil, fmt.Errorf("%w: header of a row", ErrDamaged)
	}
	return h, r.b, nil
}

func (p parts) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, p.id)
	dst = binary.AppendUvarint(dst, uint64(p.count))
	return binary.AppendUvarint(dst, uint64(p.size))
}

func parseParts(payload []byte) (parts, error) {
	r := reader{b: payload}
	p := parts{id: r.uvarint(), count: uint32(r.uvarint()), size: int(r.uvarint())}
	if r.bad {
		return p, fmt.Errorf("%w: reference to the parts of a row", ErrDamaged)
	}
	return p, nil
}

// payload is what stands behind the header of a row or a mark.
type payload struct {
	version []byte // VersionColumn only
	full    []byte // the key before it was shortened; nil: it is not
	row     []byte // not of a mark
}

func (p payload) append(dst []byte, h header) []byte {
	if h.flags&flagVersion != 0 {
		dst = appendBytes(dst, p.version)
	}
	if h.flags&flagLong != 0 {
		dst = appendBytes(dst, p.full)
	}
	return append(dst, p.row...)
}

// size is the length of what append appends, or a little more.
func (p payload) size() int {
	return len(p.version) + len(p.full) + len(p.row) + 2*binary.MaxVarintLen32
}

func parsePayload(h header, b []byte) (p payload, err error) {
	r := reader{b: b}
	if h.flags&flagVersion != 0 {
		p.version = r.bytes()
	}
	if h.flags&flagLong != 0 {
		p.full = r.bytes()
	}
	if r.bad {
		return payload{}, fmt.Errorf("%w: row of %d bytes", ErrDamaged, len(b))
	}
	p.row = r.b
	return p, nil
}

func appendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

// bucket is what is known of one bucket. Guarded by generation.mu for reading, written only by the holder of generation.writing as well.
type bucket struct {
	id          BucketID
	stored      bool // its record is in the database
	hasPosition bool
	position    Position
}

func (b *bucket) append(dst []byte) []byte {
	var flags byte
	if b.hasPosition {
		flags = 1
	}
	dst = append(dst, flags)
	dst = binary.AppendVarint(dst, int64(b.id.Partition))
	dst = binary.AppendUvarint(dst, uint64(len(b.id.Topic)))
	dst = append(dst, b.id.Topic...)
	if !b.hasPosition {
		return dst
	}
	dst = append(dst, b.position.TopicID[:]...)
	dst = binary.AppendVarint(dst, b.position.Next)
	var proved int64
	if !b.position.ProvedAt.IsZero() {
		proved = b.position.ProvedAt.UnixNano()
	}
	return binary.AppendVarint(dst, proved)
}

func parseBucket(value []byte) (bucket, error) {
	r := reader{b: value}
	b := bucket{stored: true, hasPosition: r.byte()&1 != 0}
	b.id.Partition = int32(r.varint())
	b.id.Topic = string(r.bytes())
	if b.hasPosition {
		b.position.Bucket = b.id
		copy(b.position.TopicID[:], r.take(16))
		b.position.Next = r.varint()
		if proved := r.varint(); proved != 0 {
			b.position.ProvedAt = time.Unix(0, proved).UTC()
		}
	}
	if r.bad || len(r.b) > 0 {
		return b, fmt.Errorf("%w: record of a bucket", ErrDamaged)
	}
	return b, nil
}

// reader takes encoded fields off the front of b; bad says that one was not there.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if r.bad || n < 0 || n > len(r.b) {
		r.bad = true
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.take(n)
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.take(n)
	return v
}

func (r *reader) bytes() []byte {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.bad = true
		return nil
	}
	return r.take(int(n))
}

// shortSum tells long names apart.
func shortSum(name string) []byte {
	sum := sha256.Sum256([]byte(name))
	return sum[:8]
}
