package integration

import "testing"

func TestSmoke(t *testing.T) {
	c := onShared(t)
	c.createAll(t, 4)
	c.rows(t, 100, 4)
	w := c.follow(t, "orders")
	c.load(t, 100, 1000, 10, 4)()
	w.await(t, 100, 10e9)
	if len(c.read(t, "customer")) != 100 {
		t.Fatal()
	}
	c.noOpenTransaction(t, "orders")
}
