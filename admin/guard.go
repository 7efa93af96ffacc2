package admin

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Guard lets only clients of this machine through; others get 403 with the reason. Four things must hold:
//
//   - The connection comes from a loopback address. `kubectl port-forward`, `ssh -L` and a shell in the container do; a published port of a container
//     (`docker run -p`) does not.
//   - The Host header is `localhost`, a name below it, or an IP address, whatever the port. A web page that points its own name at 127.0.0.1 (DNS
//     rebinding) makes a browser on this machine send that name, so names are refused. Port-forwards to another port or address still work; a proxy on this
//     machine that keeps the outer name does not.
//   - No page of another site made the browser ask: it could not read the answer, but a profile costs.
//   - No header says that the request was forwarded for somebody else. A proxy on this machine, or the side car of a service mesh, connects from loopback
//     whoever is behind it.
func Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if detail := refusal(r); detail != "" {
			writeError(w, http.StatusForbidden, "loopback_only", detail)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refusal is why the request is not one of a loopback client; "" when it is.
func refusal(r *http.Request) string {
	if !loopback(r.RemoteAddr) {
		return "this path answers clients on the same machine only; use it from there, or through `kubectl port-forward` or `ssh -L`"
	}
	if !localHost(r.Host) {
		return "the Host header must be localhost or an IP address (protection against DNS rebinding)"
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
		return "a page of another site made the browser ask for this"
	}
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Real-Ip"} {
		if r.Header.Get(name) != "" {
			return "the request was forwarded by a proxy (" + name + "); this path answers clients on the same machine only"
		}
	}
	return ""
}

// loopback reports whether a connection's remote address, host:port, is of this machine.
func loopback(remote string) bool {
	ap, err := netip.ParseAddrPort(remote)
	return err == nil && ap.Addr().Unmap().IsLoopback()
}

// localHost reports whether a Host header can't be a name that someone else controls. An empty one (HTTP/1.0) never comes from a browser.
func localHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	_, err := netip.ParseAddr(host)
	return err == nil
}
