package record

// Span is the place of a value in the bytes that were scanned: src[Start:End].
type Span struct{ Start, End int }

// Edit replaces the bytes of a span.
type Edit struct {
	Span  Span
	Value []byte
}

// Doc is one scanned record. It is reused from record to record and belongs to one goroutine. It keeps the bytes that were scanned, which must
// not change as long as it is asked about them.
type Doc struct {
	src         []byte
	shape       *Shape
	slots       []Span // Start 0: nothing found, since the record's own brace stands there
	occurrences [][]Span
	members     int
	closing     int // where the record's closing brace is
	name        []byte
	open        nesting
}

// Scan validates src in one pass (one JSON object by RFC 8259 with nothing but white space around it, UTF-8, at most 10,000 levels of
// nesting, of which the object is one; surrogate escapes need no partner) and finds the values of the shape's paths and the occurrences of
// its fields. Of repeated names the last counts, at each level: of a repeated parent only the last one is looked into.
//
// The error is a *SyntaxError; the Doc then holds nothing. Once the Doc has grown, only an error allocates.
func (s *Shape) Scan(d *Doc, src []byte) error {
	d.reset(s, src)
	i := skipSpace(src, 0)
	if i == len(src) {
		return d.fail(i, faultEmpty)
	}
	if src[i] != '{' {
		return d.fail(i, faultNotObject)
	}
	next, members, f := d.scanObject(i+1, 1, &s.nodes[0])
	if f != faultNone {
		return d.fail(next, f)
	}
	if i = skipSpace(src, next); i < len(src) {
		return d.fail(i, faultTrailing)
	}
	d.members, d.closing = members, next-1
	return nil
}

func (d *Doc) reset(s *Shape, src []byte) {
	d.src, d.members, d.closing = src, 0, 0
	if d.shape != s {
		d.shape = s
		d.slots = make([]Span, s.slots)
		d.occurrences = make([][]Span, s.lists)
	}
	clear(d.slots)
	for f := range d.occurrences {
		d.occurrences[f] = d.occurrences[f][:0]
	}
}

func (d *Doc) fail(i int, f fault) error {
	err := syntaxError(d.src, i, f)
	d.reset(d.shape, nil)
	return err
}

// scanObject passes over the members of an object from behind its opening brace to behind its closing one, looking for the names below n.
// depth containers are open, this one included. It recurses only along paths.
func (d *Doc) scanObject(i, depth int, n *node) (next, members int, f fault) {
	src := d.src
	i = skipSpace(src, i)
	if i < len(src) && src[i] == '}' {
		return i + 1, 0, faultNone
	}
	for {
		if i >= len(src) || src[i] != '"' {
			return i, members, faultName
		}
		start := i + 1
		var escaped bool
		if i, escaped, f = scanString(src, start); f != faultNone {
			return i, members, f
		}
		name := src[start : i-1]
		if i, f = scanColon(src, i); f != faultNone {
			return i, members, f
		}
		if escaped {
			name = d.unescape(name)
		}
		if k := n.find(name); k == none {
			i, f = scanValue(src, i, depth, &d.open)
		} else {
			i, f = d.scanChildren(i, depth, n, k)
		}
		if f != faultNone {
			return i, members, f
		}
		members++
		i = skipSpace(src, i)
		if i >= len(src) {
			return i, members, faultEnd
		}
		switch src[i] {
		case ',':
			i = skipSpace(src, i+1)
		case '}':
			return i + 1, members, faultNone
		default:
			return i, members, faultObjectNext
		}
	}
}

// unescape resolves the escapes of a field's name; they are known to be valid.
func (d *Doc) unescape(name []byte) []byte {
	d.name, _ = appendUnescaped(d.name[:0], name)
	return d.name
}

// scanChildren passes over the value at i of child k and of its twins. Twins, one of which may stand for an array index, are so rare that
// the value is simply read once for each.
func (d *Doc) scanChildren(i, depth int, n *node, k int) (next int, f fault) {
	for ; k != none; k = n.children[k].twin {
		if next, f = d.scanChild(i, depth, &n.children[k]); f != faultNone {
			return next, f
		}
	}
	return next, f
}

// scanChild passes over the value at i of a name that is looked for.
func (d *Doc) scanChild(i, depth int, c *child) (next int, f fault) {
	clear(d.slots[c.low:c.high])
	switch {
	case c.node == none || i >= len(d.src):
		next, f = scanValue(d.src, i, depth, &d.open)
	case d.src[i] == '{' || d.src[i] == '[' && d.shape.nodes[c.node].indexed:
		if depth >= maxDepth {
			return i, faultDepth
		}
		if n := &d.shape.nodes[c.node]; d.src[i] == '{' {
			next, _, f = d.scanObject(i+1, depth+1, n)
		} else {
			next, f = d.scanArray(i+1, depth+1, n)
		}
	default:
		next, f = scanValue(d.src, i, depth, &d.open)
	}
	if f != faultNone {
		return next, f
	}
	if c.slot != none {
		d.slots[c.slot] = Span{Start: i, End: next}
	}
	if c.list != none {
		d.occurrences[c.list] = append(d.occurrences[c.list], Span{Start: i, End: next})
	}
	return next, faultNone
}

// scanArray passes over the elements of an array from behind its opening bracket to behind its closing one, looking for the indexes below n.
func (d *Doc) scanArray(i, depth int, n *node) (next int, f fault) {
	src := d.src
	i = skipSpace(src, i)
	if i < len(src) && src[i] == ']' {
		return i + 1, faultNone
	}
	for index := 0; ; index++ {
		// At most one child stands for an index: an index is written in one way.
		k := none
		for at := range n.children {
			if n.children[at].index == index {
				k = at
			}
		}
		if k == none {
			i, f = scanValue(src, i, depth, &d.open)
		} else {
			i, f = d.scanChild(i, depth, &n.children[k])
		}
		if f != faultNone {
			return i, f
		}
		i = skipSpace(src, i)
		if i >= len(src) {
			return i, faultEnd
		}
		switch src[i] {
		case ',':
			i = skipSpace(src, i+1)
		case ']':
			return i + 1, faultNone
		default:
			return i, faultArrayNext
		}
	}
}

// Value is the bytes of path i's value inside the record, nil when it is absent.
func (d *Doc) Value(i int) []byte {
	slot := d.shape.pathSlots[i]
	if slot == none {
		return nil
	}
	at := d.slots[slot]
	if at.Start == 0 {
		return nil
	}
	return d.src[at.Start:at.End:at.End]
}

// Occurrences is where the values of field f are, in the order of the record; empty when the field is absent. It is valid until the next Scan.
func (d *Doc) Occurrences(f int) []Span { return d.occurrences[d.shape.fieldLists[f]] }

// Members is the number of the record's fields, repeated ones included.
func (d *Doc) Members() int { return d.members }

// AppendSpliced appends the record with members (`"a":1,"b":null`, without a comma before; may be empty) spliced in right before its closing
// brace, and with the edits made, which ascend and don't overlap. All other bytes stay, white space included. Only after a successful Scan.
func (d *Doc) AppendSpliced(dst, members []byte, edits []Edit) []byte {
	at := 0
	for _, e := range edits {
		dst = append(append(dst, d.src[at:e.Span.Start]...), e.Value...)
		at = e.Span.End
	}
	if len(members) > 0 {
		dst = append(dst, d.src[at:d.closing]...)
		if d.members > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, members...)
		at = d.closing
	}
	return append(dst, d.src[at:]...)
}
