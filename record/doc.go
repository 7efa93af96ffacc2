// Package record holds what a record is made of: typed key values as order-preserving bytes, JSON objects that are read and spliced without
// being decoded, and the columns of dimension rows. It knows nothing of Kafka, stores or configuration, starts nothing and keeps no state
// besides what callers hand in.
//
// # Records stay bytes
//
// A Shape is compiled once from the paths that the lookups need; Shape.Scan then reads a record once, strictly, and remembers in a Doc where
// the values of those paths are. Doc.AppendSpliced copies the record's own bytes with new fields before the closing brace. Nothing is
// decoded and encoded again, so numbers beyond 2^53, 1.10, 1e400, -0, repeated names, escapes and white space stay as they were. Strings are
// read eight bytes at a time; after the Doc and the destination have grown, nothing allocates.
//
// The scan is strict because a record that is passed on has to be JSON for every reader: RFC 8259, UTF-8 without surrogates and overlong
// forms, nothing behind the object, at most 10,000 levels (as encoding/json has it), found without recursion. A surrogate escape without its
// other half is allowed by the grammar and passes.
//
// # Keys
//
// AppendKey converts a JSON value by meaning to the type of a column and appends its code. The codes are self-delimiting and no code of a type
// is a prefix of another one, so a tuple is the concatenation of its columns' codes, its byte order is its order by value, and the tuples
// that share their first columns are one range of bytes.
//
//	string     the bytes, 0x00 as 0x00 0xFF, ended by 0x00 0x01; order of code points; a lone surrogate as the three bytes of WTF-8
//	int, int32 8 or 4 bytes big-endian, sign flipped
//	decimal    0x01 negative, 0x02 zero, 0x03 positive; then the power of ten (one byte within ±100, else length and magnitude), then the
//	           digits in pairs from 0x01 to 0x64, without zeros at both ends, ended by 0x00; all complemented after a negative sign
//	double     IEEE 754 bits big-endian, the sign flipped or below zero all bits; -0 is 0
//	bool       0x00, 0x01
//	date       year (2 bytes), month, day
//	timestamp  seconds since the epoch (8 bytes, sign flipped), nanoseconds (4 bytes; from 1e9 on in a leap second)
//	bytes      as string
//	any        0x01 bool, 0x02 number (as decimal), 0x03 string; then that code
//
// A decimal's exponent is bounded, by ±10,000, as it is written; a string of digits may be of any length. An undeclared number is bounded by
// its value, at ten to the power ±2^62.
//
// # Rows
//
// A Row is the columns' own JSON bytes behind a table of their ends. The layouts of keys and rows go into Schema.Fingerprint; who stores rows
// compares it and reads everything anew when it differs. There is no crash model here: durability is the store's.
package record
