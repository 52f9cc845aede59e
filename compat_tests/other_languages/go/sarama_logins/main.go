// Uses sarama with every way to prove who it is: TLS, certificates, and the mechanisms of SASL.
package main

import (
	"context"
	"time"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
	"tailrace.test/logins"
)

// sarama leaves SCRAM to another library.
type exchange struct {
	*scram.ClientConversation
	hash scram.HashGeneratorFcn
}

func (e *exchange) Begin(user, password, authorization string) error {
	client, err := e.hash.NewClient(user, password, authorization)
	if err == nil {
		e.ClientConversation = client.NewConversation()
	}
	return err
}

type token string

func (t token) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: string(t)}, nil
}

func main() {
	logins.Run(try)
}

func settings(login logins.Login) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V4_0_0_0
	config.Producer.Return.Successes = true
	config.Metadata.Retry.Max = 0
	config.Consumer.MaxWaitTime = 20 * time.Millisecond // to close a consumer takes as long
	if encryption := login.TLS(); encryption != nil {
		config.Net.TLS.Enable, config.Net.TLS.Config = true, encryption
	}
	if login.Mechanism != "" {
		config.Net.SASL.Enable, config.Net.SASL.Mechanism = true, sarama.SASLMechanism(login.Mechanism)
		config.Net.SASL.User, config.Net.SASL.Password = login.User, login.Password
		config.Net.SASL.TokenProvider = token(login.Token)
		hash := scram.SHA256
		if login.Mechanism == sarama.SASLTypeSCRAMSHA512 {
			hash = scram.SHA512
		}
		config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &exchange{hash: hash} }
	}
	return config
}

func try(ctx context.Context, login logins.Login, topic, value string) (string, error) {
	client, err := sarama.NewClient([]string{login.Address}, settings(login))
	if err != nil {
		return "", err
	}
	defer client.Close()
	producer, err := sarama.NewSyncProducerFromClient(client)
	if err != nil {
		return "", err
	}
	defer producer.Close()
	message := &sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(value)}
	partition, offset, err := producer.SendMessage(message)
	if err != nil {
		return "", err
	}
	consumer, err := sarama.NewConsumerFromClient(client)
	if err != nil {
		return "", err
	}
	defer consumer.Close()
	reader, err := consumer.ConsumePartition(topic, partition, offset)
	if err != nil {
		return "", err
	}
	defer reader.Close()
	select {
	case read := <-reader.Messages():
		return string(read.Value), nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
