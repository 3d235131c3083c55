// Compares every workspace and every panel in two sizes and both themes with the pictures in screen/pictures, which
// have a quarter of the size and 4 bits per channel. To replace the pictures after an intended change (with the font of
// Debian 12, which app/prepare installs):
//   MOESCOPE_KEEP_PICTURES=1 ctest --test-dir build/release -R qt_pictures
#include <QDir>
#include <QDockWidget>
#include <QFontInfo>
#include <QPainter>
#include <QTemporaryDir>
#include <QTest>
#include <algorithm>
#include <cstdlib>
#include <memory>

#include "app/look/theme.h"
#include "app/window/main_window.h"
#include "app/workspaces/workspace_tabs.h"
#include "tests/support/screen_test.h"
#include "tests/support/synthetic_run.h"
#include "widgets/overview/health_banner.h"

using namespace moescope;

namespace {

constexpr int kShrunk = 4;
constexpr int kOtherPixel = 48;           // pixels differ if a channel (0 to 255) differs by more, as no rounding does
constexpr double kOthersAllowed = 0.010;  // largest share of pixels that may differ
constexpr int kSettleMs = 3000;           // longest wait for work in other threads

const QSize kWorkspaceSizes[] = {{1024, 620}, {1600, 900}};
const QSize kPanelSizes[] = {{300, 200}, {560, 360}};

QString keptFolder() {
  return QStringLiteral(MOESCOPE_TEST_DATA "/screen/pictures/");
}

QImage shrunk(const QImage& picture) {
  QImage small = picture.scaled(picture.size() / kShrunk, Qt::IgnoreAspectRatio, Qt::SmoothTransformation)
                     .convertToFormat(QImage::Format_RGB32);
  for (int y = 0; y < small.height(); ++y) {
    auto* row = reinterpret_cast<QRgb*>(small.scanLine(y));
    for (int x = 0; x < small.width(); ++x) row[x] = 0xff000000 | ((row[x] & 0xf0f0f0) | (row[x] >> 4 & 0x0f0f0f));
  }
  return small;
}

bool differs(QRgb a, QRgb b) {
  return std::abs(qRed(a) - qRed(b)) > kOtherPixel || std::abs(qGreen(a) - qGreen(b)) > kOtherPixel ||
         std::abs(qBlue(a) - qBlue(b)) > kOtherPixel;
}

// Returns the share of pixels that differ; 1 if the sizes differ.
double shareOfOthers(const QImage& a, const QImage& b) {
  if (a.size() != b.size()) return 1;
  int different_pixels = 0;
  for (int y = 0; y < a.height(); ++y)
    for (int x = 0; x < a.width(); ++x) different_pixels += differs(a.pixel(x, y), b.pixel(x, y));
  return 1.0 * different_pixels / (a.width() * a.height());
}

// Writes the kept picture, the new picture and their differences below each other. Returns the path of the file.
QString writeDifference(const QString& name, const QImage& kept_picture, const QImage& new_picture) {
  QImage all(std::max(kept_picture.width(), new_picture.width()), kept_picture.height() + 2 * new_picture.height(),
             QImage::Format_RGB32);
  all.fill(Qt::gray);
  QPainter painter(&all);
  painter.drawImage(0, 0, kept_picture);
  painter.drawImage(0, kept_picture.height(), new_picture);
  painter.end();
  for (int y = 0; y < std::min(new_picture.height(), kept_picture.height()); ++y)
    for (int x = 0; x < std::min(new_picture.width(), kept_picture.width()); ++x)
      if (differs(new_picture.pixel(x, y), kept_picture.pixel(x, y)))
        all.setPixel(x, kept_picture.height() + new_picture.height() + y, 0xffff00ff);
  const QString path = QDir(QDir::temp().filePath("moescope-pictures")).filePath(name);
  QDir().mkpath(QDir::temp().filePath("moescope-pictures"));
  all.save(path);
  return path;
}

}  // namespace

class PicturesTest : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() {
    QFont font(QStringLiteral("DejaVu Sans"), 9);
    QVERIFY2(QFontInfo(font).family() == "DejaVu Sans", "fonts-dejavu-core is not installed: run app/prepare");
    font.setHintingPreference(QFont::PreferNoHinting);
    QApplication::setFont(font);
    QCoreApplication::setApplicationName("moescope");
    run_ = std::make_unique<SyntheticRun>(shape());
    twin_ = std::make_unique<SyntheticRun>(shape());
    run_->append(kSteps);
    twin_->append(kSteps + 20);  // further in training than run_
    QDir().mkpath(keptFolder());
  }

  void everyWorkspaceAndPanelLooksAsBefore_data() {
    QTest::addColumn<bool>("dark");
    QTest::newRow("light") << false;
    QTest::newRow("dark") << true;
  }
  void everyWorkspaceAndPanelLooksAsBefore() {
    QFETCH(bool, dark);
    applyTheme(dark ? Theme::dark : Theme::light);
    theme_ = themeName(dark ? Theme::dark : Theme::light);
    differences_.clear();
    MainWindow window(false);
    window.show();
    window.selection()->setHistories({run_->history(), twin_->history()});
    window.selection()->setLayer(2);
    window.selection()->setExpert(5);
    const auto* banner = window.findChild<HealthBanner*>();
    QTRY_VERIFY_WITH_TIMEOUT(!banner->text().contains("Reading the run"), 60000);  // a separate thread reads the run
    for (const QSize size : kWorkspaceSizes) {
      window.resize(size + QSize(0, 150));
      for (Workspace* workspace : window.workspaces()->all()) {
        window.workspaces()->bringUp(workspace);
        workspace->setFixedSize(size);
        workspace->applySizes();
        look(workspace, workspace->name(), size);
        workspace->setMinimumSize(0, 0);
        workspace->setMaximumSize(QWIDGETSIZE_MAX, QWIDGETSIZE_MAX);
      }
    }
    for (Workspace* workspace : window.workspaces()->all())
      for (QDockWidget* dock : workspace->docks())
        if (auto* panel = qobject_cast<Panel*>(dock->widget())) lookAlone(panel, dock->objectName());
    single_panels_.clear();  // must be deleted before the window, whose selection they use
    QVERIFY2(differences_.isEmpty(), qPrintable("\n" + differences_.join('\n')));
  }

  void noPictureIsLeftOver() {
    for (const QString& name : QDir(keptFolder()).entryList({"*.png"}))
      QVERIFY2(taken_names_.contains(name), qPrintable(name + " shows nothing that there is: delete it"));
  }

 private:
  static constexpr int kSteps = 120;
  static SyntheticShape shape() { return {.specialise_every = 20}; }

  void lookAlone(Panel* panel, const QString& name) {
    panel->setParent(nullptr);
    panel->setMinimumSize(0, 0);
    panel->show();
    for (const QSize size : kPanelSizes) {
      panel->resize(size);
      look(panel, name, size);
    }
    panel->hide();
    single_panels_.emplace_back(panel);
  }

  static bool isBusy(const QWidget* widget) {
    const auto busy = [](const QWidget* part) { return part->isVisible() && part->property("busy").toBool(); };
    return busy(widget) || std::ranges::any_of(widget->findChildren<QWidget*>(), busy);
  }

  // Returns the picture of the widget after two equal pictures in a row, when no thread is computing.
  static QImage settled(QWidget* widget) {
    QImage last = widget->grab().toImage();
    for (int waited = 0; waited < kSettleMs; waited += 20) {
      QTest::qWait(20);
      const QImage next = widget->grab().toImage();
      if (next == last && !isBusy(widget)) break;
      last = next;
    }
    return last;
  }

  void look(QWidget* widget, const QString& what, QSize size) {
    const QString name =
        QString("%1_%2x%3_%4.png").arg(what.toLower()).arg(size.width()).arg(size.height()).arg(theme_);
    taken_names_ << name;
    const QImage new_picture = shrunk(settled(widget));
    const QString path = keptFolder() + name;
    if (qEnvironmentVariableIsSet("MOESCOPE_KEEP_PICTURES")) {
      QVERIFY(new_picture.save(path, "PNG", 1));
      return;
    }
    const QImage kept_picture = QImage(path).convertToFormat(QImage::Format_RGB32);
    if (kept_picture.isNull()) return void(differences_ << path + " is missing");
    const double share = shareOfOthers(kept_picture, new_picture);
    if (share > kOthersAllowed)
      differences_ << QString("%1: %2 % of its pixels differ, see %3")
                          .arg(name)
                          .arg(100 * share, 0, 'f', 2)
                          .arg(writeDifference(name, kept_picture, new_picture));
  }

  std::unique_ptr<SyntheticRun> run_, twin_;
  std::vector<std::unique_ptr<Panel>> single_panels_;
  QString theme_;
  QStringList differences_, taken_names_;
};

SCREEN_TEST(PicturesTest)
#include "qt_pictures.moc"
