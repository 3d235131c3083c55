#include "widgets/look/counted_text.h"

#include <QRegularExpression>

#include "core/files/text/words.h"

namespace moescope {
namespace {

// Plural of a regular English noun: "batch" becomes "batches", "copy" becomes "copies".
QString pluralOf(QString noun) {
  for (const char* hiss : {"s", "x", "ch", "sh"})
    if (noun.endsWith(QLatin1String(hiss))) return noun + "es";
  const bool follows_vowel = noun.size() > 1 && QStringLiteral("aeiou").contains(noun[noun.size() - 2]);
  if (noun.endsWith('y') && !follows_vowel) return noun.chopped(1) + "ies";
  return noun + 's';
}

}  // namespace

QString groupedText(qint64 value) {
  return QString::fromStdString(grouped(value));
}

QString countedText(qint64 count, const QString& noun) {
  const QString number = groupedText(count) + ' ';
  if (count == 1) return number + noun;
  const qsizetype end = noun.indexOf(QStringLiteral(" of "));
  return end < 0 ? number + pluralOf(noun) : number + pluralOf(noun.left(end)) + noun.mid(end);
}

QString withUnbrokenUnits(QString text) {
  static const QRegularExpression space_before_unit(QStringLiteral("(?<=\\d) (?=%|dB|\u00d7|nats)"));
  text.replace(space_before_unit, QStringLiteral("\u00a0"));
  return text.replace("nats/token", QStringLiteral("nats/\u2060token"));  // a word joiner
}

}  // namespace moescope
