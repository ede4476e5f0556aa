import pytest, grpc
from rota_sdk.gen.rota.v1 import jobs_pb2
from .running import creation
pytestmark = pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("ch",["x","é","😀"])
async def test_sz(tenant, ch):
    for n in (100, 250, 1250):
        text=ch*n
        bad = creation(text, headers={text: ""}, labels={text: ""})
        try:
            await tenant.jobs.BatchCreateJobs(jobs_pb2.BatchCreateJobsRequest(requests=[bad] * 30))
        except grpc.aio.AioRpcError as e:
            print(ch, n, e.code(), len(e.details()), sum(len(v) for k,v in e.trailing_metadata()))
