// The window of published claims: every row of the table, whether the claim was tested or not, and the intervals.
#include <QTest>
#include <QTextBrowser>

#include "app/lessons/claims_window.h"
#include "tests/support/screen_test.h"

using namespace moescope;

class QtClaims : public QObject {
  Q_OBJECT

 private slots:
  void everyRowHasItsVerdict() {
    const ParsedClaim parsed = parse_claim(
        "title = \"Gates\"\nstatement = \"Gates <cost> loss.\"\nsource = \"a paper\"\nsteps = 4\nseeds = 3\n"
        "[runs]\npreset = \"nano\"\n[[runs.run]]\nname = \"b\"\nset = { router.top_k = 1 }\n"
        "[[compare]]\ntext = \"loss, b minus a\"\npublished = \"+0.5\"\nfigure = \"ce_loss\"\nexpect = \"higher\"\n"
        "[[compare]]\ntext = \"MaxVio\"\npublished = \"-0.1\"\nfigure = \"max_vio\"\nexpect = \"lower\"\n",
        "gates.toml");
    QVERIFY2(parsed.problems.empty(), parsed.problems.empty() ? "" : parsed.problems.front().text().c_str());
    const std::vector<Claim> claims = {parsed.claim};
    const ClaimResults results{
        "2026-11-27", "2 threads", {{"gates", 0, settings_digest(claims[0]), 4, {1, 1, 1}, {0.4, 0.5, 0.6}}}};
    QWidget window;
    window.resize(1280, 800);
    auto* claims_window = new ClaimsWindow(claim_rows(claims, results), results, &window);
    const QString text = claims_window->findChild<QTextBrowser*>()->toPlainText();
    for (const char* part : {"Gates. Gates <cost> loss. a paper", "loss, b minus a", "+0.5", "agrees", "not tried",
                             "Tried on 2026-11-27 (2 threads)"})
      QVERIFY2(text.contains(part), qPrintable(text));
    QVERIFY(claims_window->height() <= window.height());
  }

  void theWindowOfClaimsOpensOnce() {
    QWidget window;
    window.resize(1280, 800);
    showClaims(&window);
    showClaims(&window);
    QCOMPARE(window.findChildren<ClaimsWindow*>().size(), 1);
    const QString text = window.findChild<QTextBrowser*>()->toPlainText();
    for (const Claim& claim : published_claims())
      QVERIFY2(text.contains(QString::fromStdString(claim.title)), claim.name.c_str());
  }
};

SCREEN_TEST(QtClaims)
#include "qt_claims.moc"
