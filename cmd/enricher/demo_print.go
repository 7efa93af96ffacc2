package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
)

// demoResult is what became of one order: an enriched record or a dead letter.
type demoResult struct {
	record *kgo.Record
}

// header is the value of a dead letter's header; "" when there is none.
func (r demoResult) header(name string) string {
	for _, h := range r.record.Headers {
		if h.Key == deadLetterHeader+name {
			return string(h.Value)
		}
	}
	return ""
}

// deadLetterHeader begins the names of the headers that say why a record is a dead letter.
const deadLetterHeader = "__enricher.errors."

// demoView prints the demo for people. The first error of the writer is kept, later prints do nothing.
type demoView struct {
	w   io.Writer
	err error
}

func (v *demoView) printf(format string, args ...any) {
	if v.err == nil {
		_, v.err = fmt.Fprintf(v.w, format, args...)
	}
}

func (v *demoView) intro(broker, admin string) {
	v.printf("enricher demo: an embedded Kafka and the real service, in this one process.\n\n")
	v.printf("  Kafka   %s\n  admin   http://%s  (/status /readyz /metrics)\n", broker, admin)
}

func (v *demoView) customers(rows []demoCustomer) {
	v.printf("\nThe dimension: topic %s, one row per customer and date\n\n", demoDimension)
	cells := [][]string{{"c_custkey", "dt", "c_name", "c_address"}}
	for _, c := range rows {
		if c.deleted {
			cells = append(cells, []string{strconv.Itoa(c.Key), c.Dt, "(deleted by a tombstone)", ""})
			continue
		}
		cells = append(cells, []string{strconv.Itoa(c.Key), c.Dt, c.Name, c.Address})
	}
	v.table(cells)
}

// Widths of the order table, fixed so that lines that come one by one still stand in columns.
const (
	orderWidth   = 7
	custWidth    = 5
	dtWidth      = 6
	priceWidth   = 18
	nameWidth    = 15
	addressWidth = 21
)

func (v *demoView) ordersHead(title string) {
	v.printf("\n%s\n\n", title)
	v.columns([]string{"order", "cust", "dt", "price"}, []string{"customer_name", "customer_address"}, "")
}

// order prints a fact, an arrow and what became of it.
func (v *demoView) order(o demoOrder, r demoResult) {
	fact := fields(o.value)
	if fact == nil {
		v.printf("  %s→  dead letter, class %s: %s\n", pad(o.value, orderWidth+custWidth+dtWidth+priceWidth), r.header("class"), r.header("message"))
		return
	}
	left := []string{fact["o_orderkey"], fact["o_custkey"], fact["o_dt"], fact["o_totalprice"]}
	if class := r.header("class"); class != "" {
		v.columns(left, []string{"dead letter", class + ": " + r.header("message")}, "")
		return
	}
	added := fields(string(r.record.Value))
	v.columns(left, []string{added["customer_name"], added["customer_address"]}, o.remark)
}

func (v *demoView) columns(left, right []string, remark string) {
	line := pad(left[0], orderWidth) + pad(left[1], custWidth) + pad(left[2], dtWidth) + pad(left[3], priceWidth) +
		"→  " + pad(right[0], nameWidth) + pad(right[1], addressWidth) + remark
	v.printf("  %s\n", strings.TrimRight(line, " "))
}

func (v *demoView) bytes(o demoOrder, r demoResult) {
	v.printf("\nThe bytes of an order stay as they are, the fields are added at the end:\n\n")
	v.printf("  before  %s\n  after   %s\n", o.value, r.record.Value)
}

// table prints rows of cells in columns as wide as their widest cell.
func (v *demoView) table(rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell)+2)
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(pad(cell, widths[i]))
		}
		v.printf("  %s\n", strings.TrimRight(line.String(), " "))
	}
}

func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(width-utf8.RuneCountInString(s), 1))
}

// fields gives the members of a JSON object as they are written, strings without their quotes; nil when it is none.
func fields(object string) map[string]string {
	var raw map[string]json.RawMessage
	if json.Unmarshal([]byte(object), &raw) != nil {
		return nil
	}
	m := map[string]string{}
	for name, value := range raw {
		var s string
		if err := json.Unmarshal(value, &s); err == nil && value[0] == '"' {
			m[name] = s
		} else {
			m[name] = string(value)
		}
	}
	return m
}
