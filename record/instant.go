package record

import (
	"encoding/binary"
	"time"
)

// date is a day of the proleptic Gregorian calendar, years 0000 to 9999.
type date struct{ year, month, day int }

// parseDate reads yyyy-MM-dd (RFC 3339 full-date) of a day that exists.
func parseDate(text []byte) (date, bool) {
	if len(text) != 10 || text[4] != '-' || text[7] != '-' {
		return date{}, false
	}
	y, ok1 := twoDigits(text, 0)
	yy, ok2 := twoDigits(text, 2)
	m, ok3 := twoDigits(text, 5)
	d, ok4 := twoDigits(text, 8)
	out := date{year: y*100 + yy, month: m, day: d}
	return out, ok1 && ok2 && ok3 && ok4 && out.exists()
}

func (d date) exists() bool {
	return 0 <= d.year && d.year <= 9999 && 1 <= d.month && d.month <= 12 && 1 <= d.day && d.day <= d.daysInMonth()
}

func (d date) daysInMonth() int {
	switch d.month {
	case 2:
		if d.year%4 == 0 && (d.year%100 != 0 || d.year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// appendDate appends year (2 bytes), month, day.
func appendDate(dst []byte, d date) []byte {
	return append(dst, byte(d.year>>8), byte(d.year), byte(d.month), byte(d.day))
}

// instant is a moment. A leap second has the second before it and nanoseconds from 1e9: later than that, earlier than the next.
type instant struct {
	seconds     int64 // since 1970-01-01T00:00:00Z, no leap seconds counted
	nanoseconds uint32
}

const (
	nanosPerSecond   = 1_000_000_000
	secondsPerMinute = 60
	secondsPerDay    = 86_400
	farthestOffset   = 23*60 + 59 // minutes: +23:59
)

func instantOfMillis(ms int64) instant {
	seconds, rest := ms/1000, ms%1000
	if rest < 0 {
		seconds, rest = seconds-1, rest+1000
	}
	return instant{seconds: seconds, nanoseconds: uint32(rest) * 1_000_000}
}

// parseInstant reads an RFC 3339 date-time. Digits beyond the nanoseconds are cut off. The second 60 is taken where a leap second can be: at
// the end of a month in UTC.
func parseInstant(text []byte) (instant, bool) {
	if len(text) < len("2006-01-02T15:04:05Z") || text[10]|0x20 != 't' || text[13] != ':' || text[16] != ':' {
		return instant{}, false
	}
	day, ok := parseDate(text[:10])
	hour, ok1 := twoDigits(text, 11)
	minute, ok2 := twoDigits(text, 14)
	second, ok3 := twoDigits(text, 17)
	if !ok || !ok1 || !ok2 || !ok3 || hour > 23 || minute > 59 || second > 60 {
		return instant{}, false
	}
	nanos, rest, ok := parseFraction(text[19:])
	if !ok {
		return instant{}, false
	}
	offset, ok := parseOffset(rest)
	if !ok {
		return instant{}, false
	}
	leap := second == 60
	if leap {
		second--
		nanos += nanosPerSecond
	}
	at := time.Date(day.year, time.Month(day.month), day.day, hour, minute, second, 0, time.UTC).Unix() - int64(offset)*secondsPerMinute
	if leap && !endsMonth(at) {
		return instant{}, false
	}
	return instant{seconds: at, nanoseconds: nanos}, true
}

// parseFraction reads what may stand behind the seconds: a point and digits.
func parseFraction(text []byte) (nanos uint32, rest []byte, ok bool) {
	if len(text) == 0 || text[0] != '.' {
		return 0, text, true
	}
	fraction, end := digits(text, 1)
	if len(fraction) == 0 {
		return 0, nil, false
	}
	for i := range 9 {
		nanos *= 10
		if i < len(fraction) {
			nanos += uint32(fraction[i] - '0')
		}
	}
	return nanos, text[end:], true
}

// parseOffset reads the zone, in minutes east of UTC.
func parseOffset(text []byte) (int, bool) {
	if len(text) == 1 && text[0]|0x20 == 'z' {
		return 0, true
	}
	if len(text) != len("+00:00") || text[0] != '+' && text[0] != '-' || text[3] != ':' {
		return 0, false
	}
	hours, ok1 := twoDigits(text, 1)
	minutes, ok2 := twoDigits(text, 4)
	if !ok1 || !ok2 || hours > 23 || minutes > 59 {
		return 0, false
	}
	if text[0] == '-' {
		return -hours*60 - minutes, true
	}
	return hours*60 + minutes, true
}

// endsMonth says whether the second is the last of a month in UTC.
func endsMonth(seconds int64) bool {
	t := time.Unix(seconds+1, 0).UTC()
	hour, minute, second := t.Clock()
	return t.Day() == 1 && hour == 0 && minute == 0 && second == 0
}

func twoDigits(text []byte, at int) (int, bool) {
	tens, ones := text[at]-'0', text[at+1]-'0'
	return int(tens)*10 + int(ones), tens <= 9 && ones <= 9
}

// appendInstant appends the seconds, sign flipped, and the nanoseconds.
func appendInstant(dst []byte, at instant) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(at.seconds)^signBit64)
	return binary.BigEndian.AppendUint32(dst, at.nanoseconds)
}

// The seconds of the years that RFC 3339 can write.
const (
	firstSecond = -62_167_219_200 // 0000-01-01T00:00:00Z
	lastSecond  = 253_402_300_799 // 9999-12-31T23:59:59Z
)

// appendJSON appends the instant as RFC 3339; where that has no year for it, in the zone that has, else as the milliseconds that it came from.
func (at instant) appendJSON(dst []byte) []byte {
	offset := 0
	switch {
	case at.seconds < firstSecond-farthestOffset*secondsPerMinute || at.seconds > lastSecond+farthestOffset*secondsPerMinute:
		return appendMillis(dst, at)
	case at.seconds < firstSecond:
		offset = farthestOffset
	case at.seconds > lastSecond:
		offset = -farthestOffset
	}
	t := time.Unix(at.seconds+int64(offset)*secondsPerMinute, 0).UTC()
	nanos := at.nanoseconds
	dst = t.AppendFormat(append(dst, '"'), "2006-01-02T15:04:")
	second := t.Second()
	if nanos >= nanosPerSecond {
		second++
		nanos -= nanosPerSecond
	}
	dst = append(dst, byte('0'+second/10), byte('0'+second%10))
	if nanos > 0 {
		dst = append(dst, '.')
		for unit := uint32(nanosPerSecond / 10); nanos > 0; unit /= 10 {
			dst = append(dst, byte('0'+nanos/unit))
			nanos %= unit
		}
	}
	switch offset {
	case 0:
		return append(dst, `Z"`...)
	case farthestOffset:
		return append(dst, `+23:59"`...)
	}
	return append(dst, `-23:59"`...)
}
