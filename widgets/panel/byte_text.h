// How bytes are shown: one visible character each, and a name.
#pragma once

#include <QString>
#include <cstdint>

#include "core/frame/frame.h"

namespace moescope {

QString byteGlyph(std::uint8_t byte);  // one character; white space and control bytes have signs of their own
QString byteName(std::uint8_t byte);   // "'a'", "space", "line feed", "0xff"
// Glyphs of the text around `position`, `reach` bytes on both sides; the byte itself in guillemets.
QString contextOf(const TokenFrame& text, std::size_t position, std::size_t reach);

}  // namespace moescope
