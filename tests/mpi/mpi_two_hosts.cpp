// Training over two hosts: two network namespaces with different host names, connected by one virtual cable. The test
// is skipped if namespaces are not permitted (a container without CAP_NET_ADMIN).
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/files/tensors/safetensors.h"
#include "core/recording/recording.h"
#include "core/training/checkpoint_folder.h"
#include "tests/support/run_command.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

class TwoHosts : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("moescope_hosts_" + std::to_string(getpid()));
    fs::create_directories(folder_);
    // For MPI each namespace is a separate machine, with its own address and host name and without shared memory.
    const std::string setup =
        "set -e; ip netns add " + a_ + "; ip netns add " + b_ +  //
        "; ip link add e0 netns " + a_ + " type veth peer name e0 netns " + b_ + "; ip -n " + a_ +
        " addr add 10.77.41.1/24 dev e0; ip -n " + b_ + " addr add 10.77.41.2/24 dev e0; for n in " + a_ + ' ' + b_ +
        "; do ip -n $n link set lo up; ip -n $n link set e0 up; done; ip netns exec " + a_ + " unshare --uts true";
    const Ended made = run("sh -c '" + setup + "'");
    if (made.status != 0)
      GTEST_SKIP() << "network namespaces are not permitted here, or ip and unshare are missing: " << made.output;
    std::ofstream agent(path("agent"));  // replaces ssh; its arguments are HOST COMMAND...
    agent << "#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\nhost=$1; shift\n"
          << "case \"$host\" in 10.77.41.1) ns=" << a_ << ";; *) ns=" << b_ << ";; esac\n"
          << "exec ip netns exec $ns unshare --uts sh -c \"hostname $ns; $*\"\n";
    agent.close();
    chmod(path("agent").c_str(), 0700);
  }
  void TearDown() override {
    run("ip netns del " + a_ + "; ip netns del " + b_);
    fs::remove_all(folder_);
  }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  Ended train_on_both(const std::string& what) const {
    const std::string subnet = "10.77.41.0/24";
    return run("OMPI_MCA_plm=rsh ip netns exec " + a_ + " unshare --uts sh -c 'hostname " + a_ + "; exec " +
               MOESCOPE_MPIRUN + " --mca plm_rsh_agent " + path("agent") +
               " --mca mpi_yield_when_idle 1 --mca btl tcp,self --mca btl_tcp_if_include " + subnet +
               " --mca oob_tcp_if_include " + subnet + " --host 10.77.41.1:2,10.77.41.2:2 -n 4 " + MOESCOPE_CLI +
               " train --threads 1 --ep 4 --ranks-per-node 2 " + what + "'");
  }
  // Returns the bytes that the first host has sent since its start.
  double bytes_on_cable() const {
    const Ended read = run("ip netns exec " + a_ + " cat /proc/net/dev");
    const std::size_t line = read.output.find("e0:");
    double field = 0;
    if (line == std::string::npos) return 0;
    std::istringstream in(read.output.substr(line + 3));
    for (int i = 0; i < 9; ++i) in >> field;
    return field;
  }

  const std::string a_ = "moea" + std::to_string(getpid()), b_ = "moeb" + std::to_string(getpid());
  fs::path folder_;
};

TEST_F(TwoHosts, TrainAsOneProcessDoesAndSendOverTheCable) {
  const std::string what = "--preset nano --steps 4 --set precision.payload=mxfp8 ";
  const Ended single = run(std::string(MOESCOPE_CLI) + " train --threads 1 " + what + "--checkpoint " + path("alone"));
  ASSERT_EQ(single.status, 0) << single.output;
  const SafetensorsFile expected(newest_checkpoint(path("alone")).front());
  for (const std::string all_to_all : {"flat", "hierarchical"}) {
    SCOPED_TRACE(all_to_all);
    const double before = bytes_on_cable();
    const Ended ended = train_on_both(what + "--all-to-all " + all_to_all + " --checkpoint " + path(all_to_all) +
                                      " --out " + path(all_to_all + ".moescope"));
    ASSERT_EQ(ended.status, 0) << ended.output;
    const SafetensorsFile trained(newest_checkpoint(path(all_to_all)).front());
    ASSERT_EQ(trained.tensors().size(), expected.tensors().size());
    for (const TensorView& tensor : expected.tensors())
      EXPECT_TRUE(std::ranges::equal(tensor.bytes, trained.at(tensor.name).bytes)) << tensor.name;
    // The cable carried more than the bytes from host to host in the frames, which do not count gradients of weights.
    const auto history = RecordingReader(path(all_to_all + ".moescope")).load(0);
    double sent = 0;
    for (int step = 0; step < 4; ++step) {
      const auto frame = history->frame_at(step);
      ASSERT_EQ(frame->wire.ranks, 4);
      for (const int from : {0, 1})
        for (const int to : {2, 3}) sent += static_cast<double>(frame->wire.sent_RR[from * 4 + to]);
    }
    EXPECT_GT(sent, 0);
    EXPECT_GT(bytes_on_cable() - before, sent);
  }
}

}  // namespace
}  // namespace moescope
