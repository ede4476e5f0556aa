package rota

import (
	"encoding/json"
	"fmt"

	rotav1 "github.com/rota-scheduler/rota/workers/go/gen/rota/v1"
)

// Payload is bytes that Rota keeps and delivers exactly as sent, and a media type that it never reads.
type Payload struct {
	Data        []byte
	ContentType string
}

// PayloadOf makes a Payload of a value: a Payload as it is, bytes as they are, a string as text, nil as nothing, anything
// else as JSON. Fails where JSON has no form for it.
func PayloadOf(value any) (Payload, error) {
	switch given := value.(type) {
	case nil:
		return Payload{}, nil
	case Payload:
		return given, nil
	case []byte:
		return Payload{given, "application/octet-stream"}, nil
	case string:
		return Payload{[]byte(given), "text/plain; charset=utf-8"}, nil
	}
	data, err := json.Marshal(value)
	if err != nil {
		return Payload{}, fmt.Errorf("rota: payload: expected a Payload, bytes, a string or a value with a JSON form: %w", err)
	}
	return Payload{data, "application/json"}, nil
}

// JSON reads the data as JSON into a value; nothing is read where there is no data.
func (p Payload) JSON(into any) error {
	if len(p.Data) == 0 {
		return nil
	}
	return json.Unmarshal(p.Data, into)
}

func (p Payload) message() *rotav1.Payload {
	if len(p.Data) == 0 && p.ContentType == "" {
		return nil
	}
	return &rotav1.Payload{Data: p.Data, ContentType: p.ContentType}
}

func payloadOf(message *rotav1.Payload) Payload {
	return Payload{message.GetData(), message.GetContentType()}
}
