package dimstore

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// readState reads all that is kept in memory.
func (g *generation) readState() error {
	txn := g.db.NewTransaction(false)
	defer txn.Discard()
	if err := g.readMeta(txn); err != nil {
		return err
	}
	if err := g.readBuckets(txn); err != nil {
		return err
	}
	if err := g.readDropped(txn); err != nil {
		return err
	}
	if err := g.readPartitions(txn); err != nil {
		return err
	}
	return g.removeOrphans(txn)
}

// each calls f with the checked value of every entry of a kind; key and value are valid in the call only.
func each(txn *badger.Txn, kind byte, f func(key, value []byte) error) error {
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{kind}})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		item := it.Item()
		err := item.Value(func(value []byte) error {
			value, err := checked(item.Key(), value)
			if err != nil {
				return err
			}
			return f(item.Key(), value)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (g *generation) readBuckets(txn *badger.Txn) error {
	return each(txn, kindBucket, func(key, value []byte) error {
		b, err := parseBucket(value)
		if err != nil {
			return err
		}
		number := uint32(len(g.buckets))
		if string(key) != string(bucketKey(number)) {
			return fmt.Errorf("%w: bucket %d is missing", ErrDamaged, number)
		}
		g.buckets = append(g.buckets, b)
		g.numbers[b.id] = number
		return nil
	})
}

func (g *generation) readMeta(txn *badger.Txn) error {
	item, err := txn.Get([]byte{kindMeta})
	if errors.Is(err, badger.ErrKeyNotFound) {
		if g.db.MaxVersion() == 0 {
			return errUnfinished
		}
		return fmt.Errorf("%w: its description is missing", ErrDamaged)
	}
	if err != nil {
		return err
	}
	value, err := item.ValueCopy(nil)
	if err != nil {
		return err
	}
	if value, err = checked([]byte{kindMeta}, value); err != nil {
		return err
	}
	var m meta
	if err := json.Unmarshal(value, &m); err != nil {
		return fmt.Errorf("%w: its description: %w", ErrDamaged, err)
	}
	switch {
	case m.Format != formatVersion:
		return misfit("format")
	case m.Fingerprint != g.store.options.Fingerprint:
		return misfit("definition")
	}
	g.meta = m
	g.complete.Store(m.Complete)
	return nil
}
