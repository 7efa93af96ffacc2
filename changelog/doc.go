// Package changelog reads the changelog of a dimension into its store.
package changelog
