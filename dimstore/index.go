package dimstore

import (
	"encoding/binary"

	"github.com/dgraph-io/badger/v4"

	"enricher/record"
)

// An index entry has no content of its own. Its key says which row it stands for, unless it is too long for that; then its value does:
//
//	i  number of the index, codes of the columns, number of the partition, key tuple → checksum
//	i  the first 4 KiB of that, SHA-256 of all of it → stored key of the row, checksum
//
// Entries are written and removed in the transaction of the row, and removed by what the stored row says.

// indexValues are the codes of the columns of a row, by index.
type indexValues struct {
	codes []byte
	spans []span
}

// span is a part of indexValues.codes; from is -1 when the row is not in the index.
type span struct{ from, to int }

func (v *indexValues) reset() { v.codes, v.spans = v.codes[:0], v.spans[:0] }

func (v *indexValues) fill(indexes []Index, row record.Row) {
	v.reset()
	for i := range indexes {
		from := len(v.codes)
		codes, ok := appendIndexCodes(v.codes, &indexes[i], row)
		v.codes = codes
		if !ok {
			from = -1
		}
		v.spans = append(v.spans, span{from, len(codes)})
	}
}

func (v *indexValues) of(index int) (codes []byte, ok bool) {
	if index >= len(v.spans) || v.spans[index].from < 0 {
		return nil, false
	}
	return v.codes[v.spans[index].from:v.spans[index].to], true
}

// appendIndexCodes appends the codes of the columns of an index, and reports whether the row is in it: it is not with a null among them, nor
// with a value that does not convert.
func appendIndexCodes(dst []byte, index *Index, row record.Row) ([]byte, bool) {
	start := len(dst)
	for i, column := range index.Columns {
		var err error
		if dst, err = record.AppendKey(dst, index.Types[i], row.Column(column)); err != nil {
			return dst[:start], false
		}
	}
	return dst, true
}

// appendIndexPrefix appends the beginning that the entries of all rows with the same codes have in common.
func appendIndexPrefix(dst []byte, index int, codes []byte) []byte {
	return append(append(dst, kindIndex, byte(index)), codes...)
}

// appendIndexKey appends the stored key of an entry.
func appendIndexKey(dst []byte, index int, codes []byte, partition uint32, key []byte) []byte {
	start := len(dst)
	dst = appendIndexPrefix(dst, index, codes)
	dst = binary.BigEndian.AppendUint32(dst, partition)
	return shorten(append(dst, key...), start, maxIndexKey)
}

// indexCost is what the entries of the change at hand take of a transaction at most.
func (b *batch) indexCost(keySize int) (size, count int64) {
	for i := range b.gen.store.options.Indexes {
		for _, v := range []*indexValues{&b.old, &b.new} {
			codes, ok := v.of(i)
			if !ok {
				continue
			}
			count++
			n := 2 + len(codes) + partitionNumberSize + keySize
			size += int64(min(n, longIndexKey)) + checksumSize + entryCost
			if n > maxIndexKey {
				size += int64(min(len(b.full), longKey))
			}
		}
	}
	return size, count
}

// putIndexes brings the entries of a row from what they were to what they are to be.
func (b *batch) putIndexes(p *partition, key []byte) error {
	for i := range b.gen.store.options.Indexes {
		was, had := b.old.of(i)
		is, has := b.new.of(i)
		if had && has && string(was) == string(is) {
			continue
		}
		if had {
			b.entry = appendIndexKey(b.entry[:0], i, was, p.number, key)
			if err := b.remove(b.keep(b.entry)); err != nil {
				return err
			}
		}
		if has {
			b.entry = appendIndexKey(b.entry[:0], i, is, p.number, key)
			if err := b.setEntry(b.keep(b.entry)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *batch) setEntry(key []byte) error {
	var row []byte
	if len(key) == longIndexKey {
		row = b.full
		if len(row) > maxInlineKey {
			row = b.short
		}
	}
	value := append(b.memory.grab(len(row)+checksumSize), row...)
	return b.set(key, b.memory.keep(appendChecksum(value, key)), 0)
}

// rowOfEntry returns the stored key of the row that an entry stands for. It appends to dst. At says where the number of the partition is in a
// key that is whole.
func rowOfEntry(dst []byte, item *badger.Item, at int) ([]byte, error) {
	key := item.Key()
	err := item.Value(func(value []byte) error {
		value, err := checked(key, value)
		if err != nil {
			return err
		}
		if len(key) == longIndexKey {
			dst = append(dst, value...)
			return nil
		}
		dst = append(append(dst, kindRow), key[at:]...)
		return nil
	})
	return dst, err
}
