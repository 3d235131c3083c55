// Text in which experts matter: facts that can only be memorised.
//
// Ten languages have 59 symbols in common. A text alternates the language's letter and a symbol, such as "QaQ7Q(Qm",
// and the next symbol depends on language and symbol alone: each language is one cycle through all symbols, in an order
// of its own. These are 590 facts without a rule, equal for every seed, so a model needs weights to store them. One
// symbol in a hundred is random, so that no model has a loss below 0.048 nats/byte.
#pragma once

#include <span>

#include "core/data/domain_generator.h"

namespace moescope {

// A document continues after the last symbol of `text`.
std::span<const Domain> fact_languages();  // order of kFactLanguages

}  // namespace moescope
