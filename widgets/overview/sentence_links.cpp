#include "widgets/overview/sentence_links.h"

#include <QRegularExpression>

namespace moescope {
namespace {

QString linkTo(const QString& kind, const QString& number, const QString& shown) {
  return QStringLiteral("<a href='%1:%2'>%3</a>").arg(kind, QString(number).remove(QLatin1Char(',')), shown);
}

// Makes a link of each number in a list: "1, 2 and 3".
QString listOfLinks(const QString& kind, const QString& list) {
  static const QRegularExpression number(QStringLiteral("\\d+(?! more)"));
  QString out;
  qsizetype done = 0;
  for (auto found = number.globalMatch(list); found.hasNext();) {
    const auto match = found.next();
    out += list.mid(done, match.capturedStart() - done) + linkTo(kind, match.captured(), match.captured());
    done = match.capturedEnd();
  }
  return out + list.mid(done);
}

}  // namespace

QString withLinks(const QString& sentence) {
  static const QRegularExpression place(
      QStringLiteral("(?<one>\\b(?<kind>layer|expert|step) (?<number>\\d[\\d,]*\\d|\\d))"
                     "|(?<=experts )(?<experts>\\d+(, \\d+)*( and \\d+( more)?)?)"
                     "|(?<= \\()(?<layers>\\d+(, \\d+)*( and \\d+( more)?)?)(?=\\)\\. Worst)"),
      QRegularExpression::CaseInsensitiveOption);
  QString out;
  qsizetype done = 0;
  for (auto found = place.globalMatch(sentence); found.hasNext();) {
    const auto match = found.next();
    out += sentence.mid(done, match.capturedStart() - done).toHtmlEscaped();
    if (!match.captured(QStringLiteral("one")).isEmpty())
      out += linkTo(match.captured(QStringLiteral("kind")).toLower(), match.captured(QStringLiteral("number")),
                    match.captured());
    else if (const QString experts = match.captured(QStringLiteral("experts")); !experts.isEmpty())
      out += listOfLinks(QStringLiteral("expert"), experts);
    else
      out += listOfLinks(QStringLiteral("layer"), match.captured());
    done = match.capturedEnd();
  }
  return out + sentence.mid(done).toHtmlEscaped();
}

}  // namespace moescope
