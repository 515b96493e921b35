#!/bin/bash
# usage: rgw_up.sh DIR PORT    Ceph on this machine: monitor, manager, one OSD in memory, and its S3
# gateway on http://127.0.0.1:PORT with key AK and secret SK. DIR is erased. Needs root (the daemons
# write below /run/ceph otherwise) and Debian's packages of the part `realistic`.
set -euo pipefail
dir=$(realpath -m "$1")
port=$2
monitor_port=$((port + 1))
rm -rf "$dir"
mkdir -p "$dir"/{mon,mgr,osd,rgw,log,run}
fsid=$(cat /proc/sys/kernel/random/uuid)
cat >"$dir/ceph.conf" <<TEXT
[global]
fsid = $fsid
mon host = [v2:127.0.0.1:$monitor_port/0]
mon initial members = a
public addr = 127.0.0.1
ms bind ipv6 = false
auth cluster required = cephx
auth service required = cephx
auth client required = cephx
auth allow insecure global id reclaim = false
keyring = $dir/keyring
run dir = $dir/run
admin socket = $dir/run/\$cluster-\$name.asok
pid file = $dir/run/\$name.pid
log file = $dir/log/\$name.log
mon data = $dir/mon
mgr data = $dir/mgr
osd data = $dir/osd
osd objectstore = memstore
memstore device bytes = 4294967296
osd memory target = 939524096
osd crush chooseleaf type = 0
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 8
osd pool default pgp num = 8
osd pool default pg autoscale mode = off
mon allow pool size one = true
mon warn on pool no redundancy = false
mon pg warn min per osd = 0
mon data avail warn = 2
mon data avail crit = 1
mgr initial modules =
[client.rgw]
rgw data = $dir/rgw
rgw frontends = beast endpoint=127.0.0.1:$port
rgw dns name = localhost
rgw thread pool size = 64
TEXT
export CEPH_CONF=$dir/ceph.conf
add_key() { ceph-authtool "$dir/keyring" --gen-key -n "$@"; }
{
  ceph-authtool --create-keyring "$dir/keyring" --gen-key -n mon. --cap mon 'allow *'
  add_key client.admin --cap mon 'allow *' --cap osd 'allow *' --cap mgr 'allow *'
  add_key mgr.x --cap mon 'allow profile mgr' --cap osd 'allow *'
  add_key osd.0 --cap mon 'allow profile osd' --cap osd 'allow *' --cap mgr 'allow profile osd'
  add_key client.rgw --cap mon 'allow rwx' --cap osd 'allow rwx'
  monmaptool --create --fsid "$fsid" --addv a "[v2:127.0.0.1:$monitor_port/0]" "$dir/monmap"
  ceph-mon -i a --mkfs --monmap "$dir/monmap" --keyring "$dir/keyring"
  ceph-mon -i a
  ceph-mgr -i x
  osd=$(cat /proc/sys/kernel/random/uuid)
  timeout 60 ceph osd new "$osd"
  ceph-osd -i 0 --mkfs --osd-uuid "$osd"
  ceph-osd -i 0
  timeout 60 ceph osd crush add osd.0 1.0 root=default host=localhost
  radosgw -n client.rgw
} >"$dir/log/setup.log" 2>&1
for _ in $(seq 480); do
  curl -s -o "$dir/log/first" "http://127.0.0.1:$port/" && break
  sleep 0.25
done
timeout 60 radosgw-admin user create --uid=test --display-name=test --access-key=AK --secret=SK \
  >>"$dir/log/setup.log" 2>&1
