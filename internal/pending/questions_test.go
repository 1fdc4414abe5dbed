// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package pending_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/tarn-dev/tarn/internal/pending"
)

// TestAReadPausesBetweenQuestions: the server answers with less than what a response has told.
func TestAReadPausesBetweenQuestions(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.answer = func(pending.Target) (pending.Answer[thing], error) { return pending.Answer[thing]{Revision: 15}, nil }
		f.writes.Note(entry{Key: "a/1", Outcome: pending.Ambiguous, Revision: 20})
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_, err := f.writes.Read(ctx, pending.Target{Key: "a/1"})
		f.Expect(err).To(BeAssignableToTypeOf(&pending.UnansweredError{}))
		f.Expect(f.asked.Load()).To(BeNumerically("<=", 100))
	})
}

// TestManyNamesOfAPrefixAreListed: reads of one name after the other ask eight times, and then once for all.
func TestManyNamesOfAPrefixAreListed(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.answer = func(pending.Target) (pending.Answer[thing], error) { return pending.Answer[thing]{Revision: 15}, nil }
		f.writes.NotePrefix("a/", 0)
		for n := range 100 {
			_, _, err := f.get(fmt.Sprint("a/", n))
			f.Expect(err).NotTo(HaveOccurred())
		}
		f.Expect(f.asked.Load()).To(BeEquivalentTo(9))
	})
}
