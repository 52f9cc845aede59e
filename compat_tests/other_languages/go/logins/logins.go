// Package logins runs a client once for each way to prove who it is, and prints which ones were served.
package logins

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"tailrace.test/report"
)

// Login is one way in which a client proves who it is. It logs in if it has a mechanism, and uses TLS if it has an
// authority.
type Login struct {
	Address, Mechanism, User, Password, Token, Authority, Certificate string
}

// TLS returns what encrypts the connections; nil if they are not encrypted.
func (login Login) TLS() *tls.Config {
	if login.Authority == "" {
		return nil
	}
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM(report.Must(os.ReadFile(login.Authority))) {
		panic("no certificate in " + login.Authority)
	}
	config := &tls.Config{RootCAs: trusted}
	if login.Certificate != "" {
		config.Certificates = []tls.Certificate{report.Must(tls.LoadX509KeyPair(login.Certificate, login.Certificate))}
	}
	return config
}

// Try sends a value to a topic, and returns the value that it reads at that place.
type Try func(ctx context.Context, login Login, topic, value string) (string, error)

// Run reads logins from the file that the second word names. For each one, it prints "served" or "refused" with the
// reason, in the values of a report.
func Run(try Try) {
	var all []Login
	report.Check(json.Unmarshal(report.Must(os.ReadFile(os.Args[2])), &all))
	said := report.New()
	for number, login := range all {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		value := fmt.Sprint("value", number)
		read, err := try(ctx, login, os.Args[1], value)
		cancel()
		switch {
		case err != nil:
			said.Values = append(said.Values, "refused: "+strings.ToLower(err.Error()))
		case read == value:
			said.Values = append(said.Values, "served")
		default:
			said.Values = append(said.Values, "read something else: "+read)
		}
	}
	said.Print()
}
