// Package chart tests the Helm chart beside it: what it renders, that Kubernetes would take it, and that enricher takes the configuration inside.
//
// It is a module of its own, so that neither Helm nor Kubernetes is a dependency of enricher. It needs no cluster, no helm and no network.
package chart
