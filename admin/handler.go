package admin

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// maxScrapes is how many /metrics requests are answered at once; gathering costs memory.
const maxScrapes = 4

// NewHandler is the server's handler without the server, e.g. for httptest.
func NewHandler(o Options) http.Handler {
	metrics := promhttp.HandlerFor(o.Gatherer, promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(o.Logger.Handler(), slog.LevelWarn),
		ErrorHandling:       promhttp.ContinueOnError, // one broken collector must not blind the rest
		MaxRequestsInFlight: maxScrapes,
	})
	mux := http.NewServeMux()
	mux.Handle("/livez", readOnly(http.HandlerFunc(live)))
	mux.Handle("/readyz", readOnly(ready(o)))
	mux.Handle("/metrics", readOnly(metrics))
	guard := Guard
	if o.TokenFile != "" {
		guard = func(next http.Handler) http.Handler { return Authorize(o.TokenFile, o.Logger, next) }
	}
	mux.Handle("/status", guard(readOnly(status(o))))
	if o.Pprof {
		mux.Handle("/debug/pprof/", guard(readOnly(http.HandlerFunc(pprof.Index))))
		mux.Handle("/debug/pprof/profile", guard(readOnly(http.HandlerFunc(pprof.Profile))))
		mux.Handle("/debug/pprof/trace", guard(readOnly(http.HandlerFunc(pprof.Trace))))
		mux.Handle("/debug/pprof/symbol", guard(http.HandlerFunc(pprof.Symbol))) // pprof posts to it
		mux.Handle("/debug/pprof/cmdline", guard(http.HandlerFunc(noPath)))      // arguments are nobody's business
	}
	mux.HandleFunc("/", noPath)
	return mux
}

func noPath(w http.ResponseWriter, _ *http.Request) {
	writeError(w, http.StatusNotFound, "not_found", "no such path: the server knows /livez, /readyz, /metrics and /status, and with admin.pprof /debug/pprof/")
}

func live(w http.ResponseWriter, _ *http.Request) {
	header(w)
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write([]byte("{\"live\":true}\n"))
}

func ready(o Options) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		reasons := o.Ready()
		answer := struct {
			Ready   bool     `json:"ready"`
			Reasons []Reason `json:"reasons"`
		}{len(reasons) == 0, append([]Reason{}, reasons...)}
		code := http.StatusOK
		if !answer.Ready {
			code = http.StatusServiceUnavailable
		}
		writeJSON(w, o.Logger, code, answer)
	}
}

func status(o Options) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, o.Logger, http.StatusOK, o.Status()) }
}

// readOnly refuses everything that is not a read.
func readOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			writeError(w, http.StatusMethodNotAllowed, "method_not_allowed", "only GET and HEAD")
			return
		}
		next.ServeHTTP(w, r)
	})
}

func header(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
}

// writeError answers with a Reason, the form that /readyz uses too.
func writeError(w http.ResponseWriter, code int, reason, detail string) {
	writeJSON(w, nil, code, struct {
		Error Reason `json:"error"`
	}{Reason{reason, detail}})
}

// writeJSON encodes before it writes, so that a value that can't be encoded is a clean 500 and not half an answer.
func writeJSON(w http.ResponseWriter, log *slog.Logger, code int, v any) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		if log != nil {
			log.Warn("encode an answer", "error", err)
		}
		code = http.StatusInternalServerError
		body.Reset()
		_ = enc.Encode(map[string]Reason{"error": {"internal", "the answer can't be written as JSON"}})
	}
	header(w)
	w.WriteHeader(code)
	_, _ = w.Write(body.Bytes()) // the client has gone
}
