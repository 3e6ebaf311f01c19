// Package parser parses.
package parser

import "fmt"

// Most is the most.
const Most = 10

const (
	Word Kind = iota
	End
)

var (
	cache = map[string]int{}
	ErrEnd error
)

type Kind int

// Parser parses.
type Parser[T any] struct {
	text string
}

type (
	Visitor interface {
		Visit(token string) error
	}
	Names = []string
)

// New makes one.
func New[T any](text string) *Parser[T] {
	return &Parser[T]{text: text}
}

// Push takes one.
func (p *Parser[T]) Push(token string, with func(string) bool) (int, error) {
	return fmt.Println(token)
}

func (Kind) String() string { return "kind" }
