package admin

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
)

// maxToken bounds a token file.
const maxToken = 4 << 10

// Authorize lets only requests through that carry the token in a file (`Authorization: Bearer TOKEN`), from wherever they come; others get 401. The file is
// read for every one of them, so a token that is replaced counts at once and nothing has to be started again. White space around the token is not part of
// it. A file that can't be read, or is empty, lets nobody through: 503, with the reason in the log only.
func Authorize(file string, log *slog.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		want, err := readToken(file)
		if err != nil {
			log.WarnContext(r.Context(), "a request is refused, the token can't be read", "error", err)
			writeError(w, http.StatusServiceUnavailable, "token_unreadable", "the token can't be read: the log says why")
			return
		}
		scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") || !same(strings.TrimSpace(given), want) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			writeError(w, http.StatusUnauthorized, "unauthorized", "this path needs the token of admin.token_file: Authorization: Bearer TOKEN")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// same compares in a time that tells nothing, not even a length.
func same(given, want string) bool {
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// readToken never says in an error what is in the file.
func readToken(file string) (string, error) {
	info, err := os.Stat(file) // follows links, which mounted secrets are
	if err != nil {
		return "", fmt.Errorf("read admin.token_file: %w", err)
	}
	if !info.Mode().IsRegular() { // a pipe would block
		return "", errors.New("admin.token_file " + file + " is not a regular file")
	}
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("read admin.token_file: %w", err)
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxToken+1))
	if err != nil {
		return "", fmt.Errorf("read admin.token_file: %w", err)
	}
	switch token := bytes.TrimSpace(content); {
	case len(content) > maxToken:
		return "", fmt.Errorf("admin.token_file %s has more than %d bytes: is it the right file?", file, maxToken)
	case len(token) == 0:
		return "", errors.New("admin.token_file " + file + " is empty: write a token into it")
	default:
		return string(token), nil
	}
}
