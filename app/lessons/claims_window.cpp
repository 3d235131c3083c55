#include "app/lessons/claims_window.h"

#include <QTextBrowser>
#include <QVBoxLayout>
#include <utility>

#include "widgets/look/tokens.h"
#include "widgets/look/type_scale.h"
#include "widgets/plots/axis.h"

namespace moescope {

namespace {

constexpr int kClaimsWidth = 860, kClaimsHeight = 640;
constexpr int kClaimsCellPadding = 4;

QString cellsOf(const ClaimRow& row) {
  const std::string gap_text = row.gap_text();
  QString cells;
  for (const std::string& text :
       {row.comparison->text, row.comparison->published, gap_text.empty() ? std::string("-") : gap_text,
        std::string(claim_verdict_words(row.verdict))})
    cells += "<td>" + printedText(text).toHtmlEscaped() + "</td>";
  return "<tr>" + cells + "</tr>";
}

QString headOf(const Claim& claim, const QString& muted) {
  return QString("<tr><td colspan='4'><b>%1</b> %2 <span style='color:%3'>%4</span></td></tr>")
      .arg(QString::fromStdString(claim.title + ".").toHtmlEscaped(),
           QString::fromStdString(claim.statement).toHtmlEscaped(), muted,
           QString::fromStdString(claim.source).toHtmlEscaped());
}

QString tableOf(std::span<const ClaimRow> rows, const QString& muted) {
  QString html = QString("<table width='98%' cellspacing='0' cellpadding='%1'><tr>").arg(kClaimsCellPadding);
  const std::pair<const char*, int> columns[] = {
      {"Compared (losses in nats/token)", 40}, {"Published", 17}, {"Here", 24}, {"Verdict", 19}};
  for (const auto& [title, percent] : columns)
    html += QString("<th align='left' width='%1%' style='color:%2'>%3</th>").arg(percent).arg(muted, title);
  html += "</tr>";
  const Claim* before = nullptr;
  for (const ClaimRow& row : rows) {
    if (row.claim != before) html += headOf(*row.claim, muted);
    before = row.claim;
    html += cellsOf(row);
  }
  return html + "</table>";
}

}  // namespace

ClaimsWindow::ClaimsWindow(std::span<const ClaimRow> rows, const ClaimResults& results, QWidget* parent)
    : QDialog(parent) {
  setObjectName("claims_window");
  setWindowTitle("Published claims, tried here");
  setAttribute(Qt::WA_DeleteOnClose);
  auto* text = new QTextBrowser;
  text->setAccessibleName("Table of claims");
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(kSpace12, kSpace12, kSpace12, kSpace12);
  column->addWidget(text);
  const QSize wanted_size(withType(kClaimsWidth, fontMetrics()), withType(kClaimsHeight, fontMetrics()));
  resize(wanted_size.boundedTo(parent->window()->size() - QSize(2 * kSpace24, 2 * kSpace24)));
  const QString notes = printedText(claim_notes(rows, results)).toHtmlEscaped();
  text->setHtml(tableOf(rows, QColor(colors(palette()).ink2).name()) + "<p>" + notes +
                "</p><p>moescope-cli claims --out FILE tests them again; docs/claims.md says how to add one.</p>");
}

void showClaims(QWidget* parent) {
  if (auto* open = parent->findChild<ClaimsWindow*>()) return open->raise();
  const std::vector<Claim> claims = published_claims();
  (new ClaimsWindow(claim_rows(claims, kept_claim_results()), kept_claim_results(), parent))->show();
}

}  // namespace moescope
