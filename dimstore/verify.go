package dimstore

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/dgraph-io/badger/v4/fb"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/y"
	"github.com/klauspost/compress/snappy"
	"google.golang.org/protobuf/proto"
)

// verifyTable checks one of Badger's tables from end to end and returns the highest transaction in it. It reads the file instead of mapping
// it, for a bad sector under a map is a signal and not an error.
//
//	blocks, index, length of the index, checksum of the index, length of the checksum
//	block: entries, offsets of the entries, their number, checksum of all that, length of the checksum; all of it compressed, if at all
func verifyTable(path string, compression options.CompressionType, r *bufio.Reader) (maxVersion uint64, err error) {
	defer func() {
		if p := recover(); p != nil { // flatbuffers has no other way to refuse an index
			err = damagedFile(path, fmt.Errorf("index: %v", p))
		}
	}()
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, fmt.Errorf("%w: a table is missing: %w", ErrDamaged, err)
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	raw, at, err := readIndex(f)
	if err != nil {
		return 0, damagedFile(path, err)
	}
	index := fb.GetRootAsTableIndex(raw, 0)
	r.Reset(io.NewSectionReader(f, 0, at))
	var (
		next  int64
		block []byte
		bo    fb.BlockOffset
	)
	for i := range index.OffsetsLength() {
		if !index.Offsets(&bo, i) || int64(bo.Offset()) != next || int64(bo.Len()) > at-next {
			return 0, damagedFile(path, fmt.Errorf("place of block %d", i))
		}
		next += int64(bo.Len())
		if cap(block) < int(bo.Len()) {
			block = make([]byte, bo.Len())
		}
		block = block[:bo.Len()]
		if _, err := io.ReadFull(r, block); err != nil {
			return 0, damagedFile(path, err)
		}
		if err := verifyBlock(block, compression); err != nil {
			return 0, damagedFile(path, fmt.Errorf("block %d: %w", i, err))
		}
	}
	if next != at || next == 0 {
		return 0, damagedFile(path, errors.New("bytes that belong to no block"))
	}
	return index.MaxVersion(), nil
}

// readIndex returns the index, checked, and where it begins.
func readIndex(f *os.File) (index []byte, at int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	at = info.Size()
	back := func(n int64) ([]byte, error) {
		if n < 0 || n > at {
			return nil, io.ErrUnexpectedEOF
		}
		at -= n
		b := make([]byte, n)
		_, err := f.ReadAt(b, at)
		return b, err
	}
	length := func() (int64, error) {
		b, err := back(4)
		if err != nil {
			return 0, err
		}
		return int64(binary.BigEndian.Uint32(b)), nil
	}
	n, err := length()
	if err != nil {
		return nil, 0, err
	}
	sum, err := back(n)
	if err != nil {
		return nil, 0, err
	}
	if n, err = length(); err != nil {
		return nil, 0, err
	}
	if index, err = back(n); err != nil {
		return nil, 0, err
	}
	return index, at, verifySum(index, sum)
}

func verifyBlock(block []byte, compression options.CompressionType) (err error) {
	switch compression {
	case options.None:
	case options.Snappy:
		block, err = snappy.Decode(nil, block)
	case options.ZSTD:
		block, err = y.ZSTDDecompress(nil, block)
	default:
		err = fmt.Errorf("unknown compression %d", compression)
	}
	if err != nil {
		return err
	}
	n := len(block) - 4
	if n < 0 {
		return io.ErrUnexpectedEOF
	}
	end := int64(n) - int64(binary.BigEndian.Uint32(block[n:]))
	if end < 0 {
		return io.ErrUnexpectedEOF
	}
	return verifySum(block[:end], block[end:n])
}

func verifySum(data, sum []byte) error {
	var want pb.Checksum
	if err := proto.Unmarshal(sum, &want); err != nil {
		return err
	}
	if want.Algo != pb.Checksum_CRC32C && want.Algo != pb.Checksum_XXHash64 {
		return fmt.Errorf("unknown checksum %d", want.Algo)
	}
	return y.VerifyChecksum(data, &want)
}
