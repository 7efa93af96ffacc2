package main

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// sites is the number of values of the first key column.
const sites = 25

// zipfExponent is the skew of the zipf workload.
const zipfExponent = 1.07

// The words of the texts.
const (
	segments = "AUTOMOBILE BUILDING FURNITURE HOUSEHOLD MACHINERY"
	words    = "carefully quick ironic deposits sleep furiously express packages regular accounts haggle blithely final theodolites nag slyly pending " +
		"requests about the bold even instructions above"
)

// generator makes records from a seed. The values of one call share a buffer with those of others, so that a million of them are cheap.
type generator struct {
	rnd             *rand.Rand
	segments, words []string
	buf             []byte
}

func newGenerator(seed uint64) *generator {
	return &generator{rnd: rand.New(rand.NewPCG(seed, 1)), segments: strings.Fields(segments), words: strings.Fields(words)}
}

// keyPicker gives the customer that the next fact names, 0 to rows-1.
type keyPicker func() int

func (g *generator) uniform(rows int) keyPicker { return func() int { return g.rnd.IntN(rows) } }

// zipf picks few customers often. The frequent ones lie all over the table, not beside each other.
func (g *generator) zipf(rows int) keyPicker {
	z := rand.NewZipf(g.rnd, zipfExponent, 1, uint64(rows-1))
	const spread = 2_654_435_761 // a prime, and greater than any number of rows here: the products are a permutation
	return func() int { return int(z.Uint64() * spread % uint64(rows)) }
}

// row makes the changelog record of customer n.
func (g *generator) row(n int) *kgo.Record {
	b := g.begin()
	b = appendSite(append(b, `{"c_site":`...), n)
	b = strconv.AppendInt(append(b, `,"c_custkey":`...), int64(n), 10)
	key := g.cut(append(b, '}'))
	b = appendSite(append(g.begin(), `{"c_site":`...), n)
	b = strconv.AppendInt(append(b, `,"c_custkey":`...), int64(n), 10)
	b = appendPadded(append(b, `,"c_name":"Customer#`...), n, 9)
	b = g.text(append(b, `","c_address":"`...), 16)
	b = appendPadded(append(b, `","c_phone":"`...), 10+n%sites, 2)
	b = appendPadded(append(b, '-'), g.rnd.IntN(1000), 3)
	b = appendPadded(append(b, '-'), g.rnd.IntN(10000), 4)
	b = appendMoney(append(b, `","c_acctbal":`...), g.rnd.IntN(1_000_000))
	b = append(append(append(b, `,"c_mktsegment":"`...), g.segments[g.rnd.IntN(len(g.segments))]...), `","c_comment":"`...)
	b = g.text(b, 12)
	return &kgo.Record{Key: key, Value: g.cut(append(b, `"}`...))}
}

// fact makes order n of three customers of one site.
func (g *generator) fact(n, rows int, pick keyPicker) *kgo.Record {
	key := g.cut(strconv.AppendInt(g.begin(), int64(n), 10))
	customer := pick()
	b := strconv.AppendInt(append(g.begin(), `{"o_orderkey":`...), int64(n), 10)
	b = appendSite(append(b, `,"o_site":`...), customer)
	b = strconv.AppendInt(append(b, `,"o_custkey":`...), int64(customer), 10)
	b = strconv.AppendInt(append(b, `,"o_shipto":`...), int64(neighbour(pick(), customer, rows)), 10)
	b = strconv.AppendInt(append(b, `,"o_payer":`...), int64(neighbour(pick(), customer, rows)), 10)
	b = appendMoney(append(b, `,"o_orderstatus":"O","o_totalprice":`...), g.rnd.IntN(50_000_000))
	b = appendPadded(append(b, `,"o_orderdate":"1996-`...), 1+g.rnd.IntN(12), 2)
	b = appendPadded(append(b, '-'), 1+g.rnd.IntN(28), 2)
	b = appendPadded(append(b, `","o_orderpriority":"5-LOW","o_clerk":"Clerk#`...), g.rnd.IntN(1000), 9)
	b = g.text(append(b, `","o_shippriority":0,"o_comment":"`...), 60)
	return &kgo.Record{Key: key, Value: g.cut(append(b, `"}`...))}
}

// neighbour is the customer nearest to n that has the site of customer.
func neighbour(n, customer, rows int) int {
	n += customer%sites - n%sites
	if n >= rows {
		n -= sites
	}
	if n < 0 {
		return customer
	}
	return n
}

// begin gives the place of the next value; cut ends it.
func (g *generator) begin() []byte {
	const block, spare = 1 << 20, 1 << 10
	if cap(g.buf)-len(g.buf) < spare {
		g.buf = make([]byte, 0, block)
	}
	return g.buf[len(g.buf):]
}

func (g *generator) cut(b []byte) []byte {
	g.buf = g.buf[:len(g.buf)+len(b)]
	return slices.Clip(b)
}

// text appends words of at least n bytes.
func (g *generator) text(b []byte, n int) []byte {
	for end := len(b) + n; len(b) < end; b = append(b, ' ') {
		b = append(b, g.words[g.rnd.IntN(len(g.words))]...)
	}
	return b
}

func appendSite(b []byte, customer int) []byte {
	return append(appendPadded(append(b, `"S`...), customer%sites, 2), '"')
}

// appendPadded appends n with zeros in front, at least digits wide.
func appendPadded(b []byte, n, digits int) []byte {
	for least := 10; digits > 1; digits-- {
		if n < least {
			b = append(b, '0')
		}
		least *= 10
	}
	return strconv.AppendInt(b, int64(n), 10)
}

func appendMoney(b []byte, cents int) []byte {
	return appendPadded(append(strconv.AppendInt(b, int64(cents/100), 10), '.'), cents%100, 2)
}
