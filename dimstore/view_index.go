package dimstore

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"enricher/record"
)

func (v *view) ScanIndex(index int, key []byte, yield func(row record.Row) bool) error {
	if v.err != nil {
		return v.failed("scan index", v.err)
	}
	if index < 0 || index >= len(v.gen.store.options.Indexes) {
		return fmt.Errorf("scan index: BUG: there is no index %d", index)
	}
	scan := v.scanEntries
	if 2+len(key)+partitionNumberSize > maxIndexKey {
		scan = v.scanLongEntries
	}
	v.cached.key = appendIndexPrefix(v.cached.key[:0], index, key)
	err := v.groupOf(v.cached.key, yield, func(yield func(record.Row) bool) error {
		it, release := v.iterator(&v.entries, kindIndex)
		defer release()
		return scan(it, index, key, yield)
	})
	if err != nil {
		return v.failed("scan index", err)
	}
	return nil
}

// fewPartitions is how many are looked into without asking first which of them have an entry.
const fewPartitions = 4

// scanEntries is for codes that are whole in every entry. The entries are in the order of the numbers of the partitions, so those of each
// partition are looked up one after the other.
func (v *view) scanEntries(it *badger.Iterator, index int, codes []byte, yield func(row record.Row) bool) error {
	prefix := appendIndexPrefix(nil, index, codes)
	var with []*partition
	if v.live.byTuple.length <= fewPartitions {
		with = slices.AppendSeq(with, v.live.byTuple.all)
	} else {
		with = v.partitionsWith(it, prefix)
	}
	for _, p := range with {
		more, err := v.scanPartition(it, binary.BigEndian.AppendUint32(prefix, p.number), yield)
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// partitionsWith finds the partitions that have an entry, in order: by one seek each.
func (v *view) partitionsWith(it *badger.Iterator, prefix []byte) []*partition {
	var with []*partition
	seek := slices.Clone(prefix)
	for it.Seek(seek); it.ValidForPrefix(prefix); it.Seek(seek) {
		number := binary.BigEndian.Uint32(it.Item().Key()[len(prefix):])
		if p, ok := v.live.numbered(number); ok { // else dropped
			with = append(with, p)
		}
		seek = binary.BigEndian.AppendUint32(seek[:len(prefix)], number+1)
	}
	slices.SortFunc(with, byTuple)
	return with
}

// scanPartition yields the rows of the entries that begin with prefix, which ends with the number of a partition; more is false when yield wants
// no more.
func (v *view) scanPartition(it *badger.Iterator, prefix []byte, yield func(row record.Row) bool) (more bool, err error) {
	var r run
	var key []byte
	for it.Seek(prefix); it.ValidForPrefix(prefix); it.Next() {
		item := it.Item()
		if r.endsBefore(item.Key(), longIndexKey, maxIndexKey) && !r.flush(yield) {
			return false, nil
		}
		if key, err = rowOfEntry(key[:0], item, len(prefix)-partitionNumberSize); err != nil {
			return false, err
		}
		content, err := v.entryRow(key)
		if err != nil {
			return false, err
		}
		if stored := item.Key(); len(stored) != longIndexKey {
			if !yield(content.row) {
				return false, nil
			}
			continue
		}
		if content.full == nil {
			content.full = key
		}
		r.add(item.Key()[:maxIndexKey], content.full, content.row)
	}
	return r.flush(yield), nil
}

// entryRow reads the row that an entry stands for.
func (v *view) entryRow(key []byte) (payload, error) {
	content, ok, err := v.read(key)
	if err == nil && !ok {
		err = fmt.Errorf("%w: an index entry without its row", ErrDamaged)
	}
	return content, err
}

// entryRef is an entry that scanLongEntries has found.
type entryRef struct {
	partition *partition
	stored    []byte // key of the row
	full      []byte
}

// scanLongEntries is for codes so long that no entry has them whole: all entries with the same beginning are looked at.
func (v *view) scanLongEntries(it *badger.Iterator, index int, codes []byte, yield func(row record.Row) bool) error {
	prefix := appendIndexPrefix(nil, index, codes)
	prefix = prefix[:min(len(prefix), maxIndexKey)]
	var found []entryRef
	var own []byte
	for it.Seek(prefix); it.ValidForPrefix(prefix); it.Next() {
		if len(it.Item().Key()) != longIndexKey {
			continue // of codes that end within what is stored
		}
		stored, err := rowOfEntry(nil, it.Item(), 0)
		if err != nil {
			return err
		}
		p, ok := v.live.numbered(binary.BigEndian.Uint32(stored[partitionNumberAt:]))
		if !ok {
			continue // dropped
		}
		content, err := v.entryRow(stored)
		if err != nil {
			return err
		}
		var in bool
		if own, in = appendIndexCodes(own[:0], &v.gen.store.options.Indexes[index], content.row); !in || !bytes.Equal(own, codes) {
			continue
		}
		if content.full == nil {
			content.full = stored
		}
		found = append(found, entryRef{p, stored, content.full})
	}
	slices.SortFunc(found, func(a, b entryRef) int {
		if c := byTuple(a.partition, b.partition); c != 0 {
			return c
		}
		return bytes.Compare(a.full, b.full)
	})
	for _, f := range found {
		content, err := v.entryRow(f.stored)
		if err != nil {
			return err
		}
		if !yield(content.row) {
			return nil
		}
	}
	return nil
}
