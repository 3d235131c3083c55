#include "widgets/overview/sentence_links.h"

#include <QRegularExpression>

#include "core/files/text/words.h"

namespace moescope {
namespace {

QString linkTo(const QString& kind, const QString& number, const QString& shown) {
  return QStringLiteral("<a href='%1:%2'>%3</a>").arg(kind, QString(number).remove(QLatin1Char(',')), shown);
}

// Makes each number in a list such as "1, 2 and 3" a link.
QString listOfLinks(const QString& kind, const QString& list) {
  // Possessive, so that the "34" of "34 more" is not taken as 3.
  static const QRegularExpression number(QStringLiteral("\\d++(?! more)"));
  QString out;
  qsizetype done = 0;
  for (auto found = number.globalMatch(list); found.hasNext();) {
    const auto match = found.next();
    out += list.mid(done, match.capturedStart() - done) + linkTo(kind, match.captured(), match.captured());
    done = match.capturedEnd();
  }
  return out + list.mid(done);
}

constexpr std::size_t kNamedByDefault = 6;  // number of experts that listed() names in the text

// The list of listed(), or of all experts, as links.
QString expertLinks(std::span<const int> experts, std::size_t max_named, bool all) {
  QString text = listOfLinks("expert", QString::fromStdString(listed(experts, all ? experts.size() : max_named)));
  static const QRegularExpression more(QStringLiteral(" (and \\d+ more)$"));
  if (!all) return text.replace(more, QStringLiteral(" <a href='more'>\\1</a>"));
  return experts.size() > max_named ? text + QStringLiteral(" <a href='more'>(fewer)</a>") : text;
}

}  // namespace

QString withLinks(const QString& sentence) {
  static const QRegularExpression place(
      QStringLiteral(
          "(?<one>\\b(?<kind>layer|expert|step) (?<number>\\d[\\d,]*\\d|\\d))"
          "|(?<=experts )(?<experts>\\d+( to \\d+)?(, \\d+( to \\d+)?)*( and \\d+( to \\d+| more)?)?)"
          "|(?<= \\()(?<layers>\\d+( to \\d+)?(, \\d+( to \\d+)?)*( and \\d+( to \\d+| more)?)?)(?=\\)\\. Worst)"),
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

QString withExpertLinks(const QString& sentence, std::span<const int> experts, bool all) {
  for (const std::size_t first : {std::size_t{0}, std::size_t{1}}) {
    if (experts.size() < first + 2) break;
    const auto other_experts = experts.subspan(first);
    for (const std::size_t max_named : {kNamedByDefault, other_experts.size()}) {
      const QString list = QString::fromStdString(listed(other_experts, max_named));
      const qsizetype at = sentence.indexOf(list);
      if (at < 0) continue;
      return sentence.first(at).toHtmlEscaped() + expertLinks(other_experts, max_named, all) +
             sentence.mid(at + list.size()).toHtmlEscaped();
    }
  }
  return sentence.toHtmlEscaped();
}

}  // namespace moescope
