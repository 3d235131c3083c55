// Numbers with their nouns and units in texts of the screen.
#pragma once

#include <QString>

namespace moescope {

QString groupedText(qint64 value);  // "1,284"

// "1 step", "1,284 steps", "8 pieces of text": the plural is that of the word before " of ", else of the last word.
QString countedText(qint64 count, const QString& noun);

QString withUnbrokenUnits(QString text);  // keeps each number and its unit on one line

}  // namespace moescope
