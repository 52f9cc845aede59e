// Package report is what the programs have in common: what each says in the end of what it has seen. An error ends it.
package report

import (
	"encoding/json"
	"os"
)

// Records is how many each program produces, and reads again.
const Records = 200

// Report is what the tests read from the standard output.
type Report struct {
	Values    []string         `json:"values"`
	Committed map[string]int64 `json:"committed"`
	State     string           `json:"state"`
}

func New() *Report {
	return &Report{Committed: map[string]int64{}}
}

func (r *Report) IsComplete() bool {
	return len(r.Values) >= Records
}

func (r *Report) Print() {
	Check(json.NewEncoder(os.Stdout).Encode(r))
}

func Must[T any](value T, err error) T {
	Check(err)
	return value
}

func Check(err error) {
	if err != nil {
		panic(err)
	}
}
