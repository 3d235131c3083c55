#include "widgets/overview/expert_links.h"

#include <QCoreApplication>
#include <QStringList>
#include <algorithm>

#include "core/io/words.h"

namespace moescope {
namespace {

constexpr std::size_t kNamedByDefault = 6;  // number of experts that listed() names in the text

QString expertLinks(std::span<const int> experts, std::size_t most, bool all) {
  const std::size_t named = all ? experts.size() : std::min(experts.size(), most);
  QStringList links;
  for (const int expert : experts.first(named)) links << QStringLiteral("<a href='expert:%1'>%1</a>").arg(expert);
  QString text = links.join(QStringLiteral(", "));
  if (named < experts.size())
    text += QStringLiteral(" <a href='more'>%1</a>").arg(QString("and %1 more").arg(experts.size() - named));
  if (all && experts.size() > most) text += QStringLiteral(" <a href='more'>%1</a>").arg("(fewer)");
  return text;
}

}  // namespace

QString withExpertLinks(const QString& sentence, std::span<const int> experts, bool all) {
  for (const std::size_t first : {std::size_t{0}, std::size_t{1}}) {
    if (experts.size() < first + 2) break;
    const auto others = experts.subspan(first);
    for (const std::size_t most : {kNamedByDefault, others.size()}) {
      const QString list = QString::fromStdString(listed(others, most));
      const qsizetype at = sentence.indexOf(list);
      if (at < 0) continue;
      return sentence.first(at).toHtmlEscaped() + expertLinks(others, most, all) +
             sentence.mid(at + list.size()).toHtmlEscaped();
    }
  }
  return sentence.toHtmlEscaped();
}

}  // namespace moescope
