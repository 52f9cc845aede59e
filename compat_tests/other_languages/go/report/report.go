// Package report has what the programs share: each prints what it has seen at the end. An error ends the program.
package report

import (
	"encoding/json"
	"os"
)

// Records is how many records each program produces and reads back.
const Records = 200

// Report is what the tests read from standard output.
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
