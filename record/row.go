package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Row is the encoded columns of one dimension row, in the order of Schema.Columns:
//
//	width (1 byte: 1, 2 or 4) | number of columns (uvarint) | end of each column (width bytes, little-endian, counted from the data) | data
//
// The data are the columns' own JSON bytes one after the other; a column that the row lacks has the length 0. A column is found by two
// loads, whatever the number of columns; with rows under 256 bytes it costs one byte. Rows are trusted: what read them from a disk has
// checked them (checksums there, Check here).
type Row []byte

// AppendRow appends the encoding of the columns; nil (or empty) is an absent column.
func AppendRow(dst []byte, columns [][]byte) []byte {
	size := 0
	for _, c := range columns {
		size += len(c)
	}
	width := rowWidth(size)
	dst = append(dst, byte(width))
	dst = binary.AppendUvarint(dst, uint64(len(columns)))
	end := 0
	for _, c := range columns {
		end += len(c)
		switch width {
		case 1:
			dst = append(dst, byte(end))
		case 2:
			dst = binary.LittleEndian.AppendUint16(dst, uint16(end))
		default:
			dst = binary.LittleEndian.AppendUint32(dst, uint32(end))
		}
	}
	for _, c := range columns {
		dst = append(dst, c...)
	}
	return dst
}

func rowWidth(size int) int {
	switch {
	case size <= math.MaxUint8:
		return 1
	case size <= math.MaxUint16:
		return 2
	case size <= math.MaxUint32:
		return 4
	}
	panic("BUG: a row of more than 4 GiB; a Kafka record holds less than 2 GiB")
}

// Column is the JSON bytes of column i inside the row; nil when the row lacks it, which reads as null.
func (r Row) Column(i int) []byte {
	width, n, at := r.header()
	if i < 0 || i >= n {
		return nil
	}
	start, end := 0, r.end(width, at+i*width)
	if i > 0 {
		start = r.end(width, at+(i-1)*width)
	}
	if start == end {
		return nil
	}
	data := at + n*width
	return r[data+start : data+end : data+end]
}

// Columns appends all columns to dst, nil for an absent one.
func (r Row) Columns(dst [][]byte) [][]byte {
	width, n, at := r.header()
	data := r[min(at+n*width, len(r)):]
	start := 0
	for i := range n {
		end := r.end(width, at+i*width)
		if end == start {
			dst = append(dst, nil)
		} else {
			dst = append(dst, data[start:end:end])
		}
		start = end
	}
	return dst
}

// Check says whether r is a whole row of this number of columns; for readers of bytes that something else may have written.
func (r Row) Check(columns int) error {
	if len(r) < 2 || r[0] != 1 && r[0] != 2 && r[0] != 4 {
		return errors.New("check row: no row header")
	}
	n, used := binary.Uvarint(r[1:])
	if used <= 0 || n != uint64(columns) {
		return fmt.Errorf("check row: %d columns instead of %d", n, columns)
	}
	width, at := int(r[0]), 1+used
	if len(r)-at < columns*width {
		return errors.New("check row: cut off in the table of columns")
	}
	last := 0
	for i := range columns {
		end := r.end(width, at+i*width)
		if end < last {
			return fmt.Errorf("check row: column %d ends before it begins", i)
		}
		last = end
	}
	if at+columns*width+last != len(r) {
		return fmt.Errorf("check row: %d bytes instead of %d", len(r), at+columns*width+last)
	}
	return nil
}

// header gives the width of an end, the number of columns and where the ends begin; an empty row has no columns.
func (r Row) header() (width, n, at int) {
	if len(r) < 2 {
		return 1, 0, len(r)
	}
	if r[1] < 0x80 {
		return int(r[0]), int(r[1]), 2
	}
	count, used := binary.Uvarint(r[1:])
	return int(r[0]), int(count), 1 + used
}

func (r Row) end(width, at int) int {
	switch width {
	case 1:
		return int(r[at])
	case 2:
		return int(binary.LittleEndian.Uint16(r[at:]))
	}
	return int(binary.LittleEndian.Uint32(r[at:]))
}
