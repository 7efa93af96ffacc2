package changelog

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// layout is a compiled format of auto_partition.
type layout []layoutPart

// layoutPart is one field, or text that stands for itself.
type layoutPart struct {
	field rune // 0: text
	text  string
	least int // digits of a field
	most  int
}

// parseLayout compiles a format in letters like Java's. A field has as many digits as it has letters; one letter alone takes one or two digits,
// unless another field follows at once.
func parseLayout(format string) (layout, error) {
	var l layout
	runes := []rune(format)
	for i := 0; i < len(runes); {
		c := runes[i]
		switch {
		case c == '\'':
			text, n, err := quotedText(runes[i:])
			if err != nil {
				return nil, err
			}
			l = l.literal(text)
			i += n
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
			n := 1
			for i+n < len(runes) && runes[i+n] == c {
				n++
			}
			part, err := fieldOf(c, n)
			if err != nil {
				return nil, err
			}
			if last := len(l) - 1; last >= 0 && l[last].field != 0 {
				l[last].most = l[last].least
			}
			for _, p := range l {
				if p.field == part.field {
					return nil, fmt.Errorf("the letter %c comes twice", part.field)
				}
			}
			l = append(l, part)
			i += n
		default:
			l = l.literal(string(c))
			i++
		}
	}
	if len(l) == 0 {
		return nil, errors.New("it is empty")
	}
	return l, nil
}

// quotedText reads text in single quotes; two of them are one.
func quotedText(runes []rune) (text string, length int, err error) {
	var b strings.Builder
	if len(runes) > 1 && runes[1] == '\'' {
		return "'", 2, nil
	}
	for i := 1; i < len(runes); i++ {
		if runes[i] != '\'' {
			b.WriteRune(runes[i])
			continue
		}
		if i+1 < len(runes) && runes[i+1] == '\'' {
			b.WriteRune('\'')
			i++
			continue
		}
		return b.String(), i + 1, nil
	}
	return "", 0, errors.New("a quote is not closed")
}

func fieldOf(c rune, n int) (layoutPart, error) {
	p := layoutPart{field: c, least: n, most: n}
	switch {
	case (c == 'y' || c == 'u') && (n == 4 || n == 2):
		p.field = 'y'
		return p, nil
	case c == 'Q' && n <= 2:
		return p, nil
	case strings.ContainsRune("MdHms", c) && n == 2:
		return p, nil
	case strings.ContainsRune("MdHms", c) && n == 1:
		p.most = 2
		return p, nil
	}
	return p, fmt.Errorf("%s is none of yyyy, yy, MM, M, dd, d, HH, H, mm, m, ss, s, Q, QQ (other letters go into single quotes)", strings.Repeat(string(c), n))
}

func (l layout) literal(text string) layout {
	if n := len(l); n > 0 && l[n-1].field == 0 {
		l[n-1].text += text
		return l
	}
	return append(l, layoutPart{text: text})
}

// lacks names the first of the letters that a format needs and does not have. A quarter can be told from a month.
func (l layout) lacks(letters string) string {
	has := func(c rune) bool {
		for _, p := range l {
			if p.field == c {
				return true
			}
		}
		return false
	}
	for _, c := range letters {
		if !has(c) && (c != 'Q' || !has('M')) {
			return string(c)
		}
	}
	return ""
}

// read takes a value apart. All of it must fit, and it must be a time that exists.
func (l layout) read(text string) (civil, error) {
	refuse := func(why string) (civil, error) { return civil{}, fmt.Errorf("%q %s", text, why) }
	c := civil{year: 1, month: 1, day: 1}
	rest := text
	for _, p := range l {
		if p.field == 0 {
			var ok bool
			if rest, ok = strings.CutPrefix(rest, p.text); !ok {
				return refuse("does not fit the format")
			}
			continue
		}
		n := 0
		for n < len(rest) && n < p.most && rest[n] >= '0' && rest[n] <= '9' {
			n++
		}
		if n < p.least {
			return refuse("does not fit the format")
		}
		v, _ := strconv.Atoi(rest[:n])
		if p.field == 'y' && p.least == 2 {
			v += 2000
		}
		c.set(p.field, v)
		rest = rest[n:]
	}
	if rest != "" {
		return refuse("does not fit the format")
	}
	return c.checked(l, refuse)
}

func (c *civil) set(field rune, v int) {
	switch field {
	case 'y':
		c.year = v
	case 'M':
		c.month = v
	case 'd':
		c.day = v
	case 'H':
		c.hour = v
	case 'm':
		c.minute = v
	case 's':
		c.second = v
	case 'Q':
		c.quarter = v
	}
}

// checked makes sure that the time exists, and fills the quarter in.
func (c civil) checked(l layout, refuse func(string) (civil, error)) (civil, error) {
	at := time.Date(c.year, time.Month(c.month), c.day, c.hour, c.minute, c.second, 0, time.UTC)
	if at.Year() != c.year || int(at.Month()) != c.month || at.Day() != c.day || at.Hour() != c.hour || at.Minute() != c.minute || at.Second() != c.second {
		return refuse("is a time that does not exist")
	}
	quarter := (c.month-1)/3 + 1
	switch {
	case l.lacks("Q") != "": // neither quarter nor month
	case c.quarter == 0 && l.lacks("M") == "":
		c.quarter = quarter
	case c.quarter < 1 || c.quarter > 4, l.lacks("M") == "" && c.quarter != quarter:
		return refuse("is a quarter that does not exist")
	}
	return c, nil
}
