"""A network line: python3 line.py ROUND_TRIP_MS LOSS_PERCENT FORGET_S

Creates a network device and prints the two addresses of its line. A server listens on the first
address, a client connects to the second. Each TCP packet takes half the round trip in each
direction, and is lost with the given probability. If FORGET_S is not 0, a TCP connection without a
packet for so many seconds is forgotten: all its later packets are dropped, as by a firewall. The
line ends with its standard input. Only root may run it.

The two ends are one machine: each packet goes back to the machine with its two addresses exchanged.
This does not change the checksums.
"""
import collections, fcntl, os, random, select, struct, subprocess, sys, time

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
SYN = 0x02

delay = float(sys.argv[1]) / 2000
loss = float(sys.argv[2]) / 100
forget = float(sys.argv[3])

tun = os.open("/dev/net/tun", os.O_RDWR)
reply = fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", b"line%d", IFF_TUN | IFF_NO_PI))
device = reply[:16].rstrip(b"\0").decode()
net = "10.99." + device[len("line"):]
for command in ("addr add %s.1/24 dev %s" % (net, device), "link set %s up" % device):
    subprocess.run(["ip"] + command.split(), check=True)
print("%s.1 %s.2" % (net, net), flush=True)

last_seen = {}  # by the ports of a TCP connection: when its last packet came


def is_forgotten(packet, now):
    head = (packet[0] & 15) * 4
    ports = frozenset(struct.unpack_from("!HH", packet, head))
    is_new = packet[head + 13] & SYN
    if not is_new and now > last_seen.get(ports, now) + forget:
        return True
    last_seen[ports] = now
    return False


queue = collections.deque()  # (when the packet arrives, packet)
while True:
    wait = max(0, queue[0][0] - time.monotonic()) if queue else None
    ready = select.select([tun, sys.stdin], [], [], wait)[0]
    now = time.monotonic()
    while queue and queue[0][0] <= now:
        os.write(tun, queue.popleft()[1])
    if sys.stdin in ready:
        break
    if tun in ready:
        packet = os.read(tun, 65536)
        if packet[0] >> 4 != 4 or packet[9] != 6 or random.random() < loss:
            continue
        if forget and is_forgotten(packet, now):
            continue
        back = packet[:12] + packet[16:20] + packet[12:16] + packet[20:]
        queue.append((now + delay, back))
