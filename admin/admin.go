// Package admin is the HTTP surface of the service: health, metrics and status. It knows nothing of the parts that it shows: all of them come in as
// small functions (Options), so that it can answer from the first moment of the process, before any of them exists.
//
// # Paths
//
//	/livez    200 as long as the process can answer at all
//	/readyz   200, or 503 with the reasons: {"ready":false,"reasons":[{"reason":"warming_up","detail":"..."}]}
//	/metrics  the Prometheus text format
//	/status   the state of the service as JSON
//
// With Options.Pprof also /debug/pprof/ and what is below it, but the command line. Everything else is 404; every answer but /metrics and the profiles is
// JSON.
//
// # Who is answered
//
// /livez, /readyz and /metrics are public: probes and scrapers come from other machines. Everything else needs the token, where one is configured
// (Authorize); else it answers loopback clients only (Guard says how that is decided and what it means for port-forwards and proxies), and a client that is
// not one gets 403 with the reason.
//
// # Lifecycle
//
// New starts nothing. Listen takes the address, so that an address in use is an error at start and not a line in a log later. Run serves until its context
// ends and then closes: requests that are being answered get CloseTimeout, what is left is cut. A client can't hold the server: headers, bodies, writes and
// idle connections all have limits.
package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Limits on what one client can take. Answers are small; a slow or broken client must not hold a connection for long.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = time.Minute
	maxHeaderBytes    = 16 << 10

	defaultCloseTimeout = 2 * time.Second
)

// Reason is one reason why the service is not ready.
type Reason struct {
	// Reason is a stable word for machines, e.g. "warming_up".
	Reason string `json:"reason"`
	// Detail is for people: what exactly, how far, what to do.
	Detail string `json:"detail"`
}

// Options are what the server shows and where. Ready, Status and Gatherer are called at any time, by many goroutines, from Listen on.
type Options struct {
	// Address to listen on, host:port. Port 0 takes a free one (see Server.Addr).
	Address string
	// Ready gives the reasons why the service is not ready; none = ready.
	Ready func() []Reason
	// Status gives the value that /status shows as JSON.
	Status func() any
	// Gatherer is what /metrics shows.
	Gatherer prometheus.Gatherer
	// TokenFile holds the bearer token for everything that is not public; "": loopback clients only, without one.
	TokenFile string
	// Pprof serves the runtime's profiles.
	Pprof bool
	// Logger takes what net/http has to say (broken connections, panics of handlers).
	Logger *slog.Logger
	// CloseTimeout is how long requests that are being answered may take when the server closes; 0 = 2 s.
	CloseTimeout time.Duration
}

// Server is the admin server. Listen and Run are called once each, by one goroutine.
type Server struct {
	o        Options
	http     *http.Server
	listener net.Listener
}

// New makes a server; nothing is started and no address taken.
func New(o Options) *Server {
	if o.CloseTimeout == 0 {
		o.CloseTimeout = defaultCloseTimeout
	}
	return &Server{o: o, http: &http.Server{
		Handler:           NewHandler(o),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(o.Logger.Handler(), slog.LevelWarn),
	}}
}

// Listen takes the address. From here on clients can connect; they are answered once Run is called.
func (s *Server) Listen(ctx context.Context) error {
	if s.o.Address == "" { // the net package would take a random port of all interfaces
		return errors.New("admin: listen: the address is empty")
	}
	if s.o.TokenFile != "" {
		if _, err := readToken(s.o.TokenFile); err != nil {
			return fmt.Errorf("admin: %w", err)
		}
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", s.o.Address)
	if err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	s.listener = l
	return nil
}

// Addr is the address that Listen took; nil before.
func (s *Server) Addr() net.Addr {
	if s.listener == nil {
		return nil
	}
	return s.listener.Addr()
}

// Run serves until ctx ends, closes the server and returns nil; an error when serving ends before that.
func (s *Server) Run(ctx context.Context) error {
	if s.listener == nil {
		return errors.New("admin: BUG: Run before Listen")
	}
	served := make(chan error, 1)
	go func() { served <- s.http.Serve(s.listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("admin: serve: %w", err)
	case <-ctx.Done():
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.CloseTimeout)
	defer cancel()
	err := s.http.Shutdown(closing)
	if err != nil { // a request that takes too long is cut: the process is about to end
		err = s.http.Close()
	}
	if serve := <-served; !errors.Is(serve, http.ErrServerClosed) {
		err = errors.Join(err, serve)
	}
	if err != nil {
		return fmt.Errorf("admin: close: %w", err)
	}
	return nil
}

// Close gives the address back when Run is never called. After Run it does nothing.
func (s *Server) Close() error {
	if s.listener == nil {
		return nil
	}
	if err := s.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("admin: close: %w", err)
	}
	return nil
}
